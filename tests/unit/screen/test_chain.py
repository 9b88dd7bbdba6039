"""Several screens in turn."""

from collections.abc import Sequence

import pytest
from prometheus_client import REGISTRY

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.screen.chain import ScreenChain
from vitascope.screen.ports import Finding

FRUIT = Finding("b", "fruit", "r1")
LOST = VitascopeError(FailureCode.SCREEN_UNAVAILABLE, "away")


class Fixed:
    """Answers always the same."""

    def __init__(self, answer: Finding | VitascopeError | None) -> None:
        self.answer, self.asked = answer, 0

    async def check(self, shown: Sequence[str], /) -> Finding | None:
        assert shown
        self.asked += 1
        if isinstance(self.answer, VitascopeError):
            raise self.answer
        return self.answer


def counted(screen: str, answer: str) -> float:
    return REGISTRY.get_sample_value("vitascope_screened_total", {"screen": screen, "answer": answer}) or 0.0


async def test_first_finding_ends_it() -> None:
    """Whoever comes later is not asked."""
    first, second, third = Fixed(None), Fixed(FRUIT), Fixed(None)
    chain = ScreenChain([("a", first), ("b", second), ("c", third)], is_open=False)
    before = counted("b", "refuses")
    assert FRUIT == await chain.check(["x"])
    assert [1, 1, 0] == [first.asked, second.asked, third.asked]
    assert before + 1 == counted("b", "refuses")


async def test_nothing_passes_a_screen_that_cannot_tell() -> None:
    """Closed: whatever the others would say."""
    last = Fixed(None)
    before = counted("a", "none")
    with pytest.raises(VitascopeError) as refused:
        await ScreenChain([("a", Fixed(LOST)), ("b", last)], is_open=False).check(["x"])
    assert FailureCode.SCREEN_UNAVAILABLE is refused.value.code
    assert 0 == last.asked
    assert before + 1 == counted("a", "none")


@pytest.mark.parametrize("finding", [None, FRUIT], ids=["passes", "refuses"])
async def test_open_chain_asks_the_others(finding: Finding | None) -> None:
    """Open: a screen that cannot tell is passed over, the next one is not."""
    assert finding == await ScreenChain([("a", Fixed(LOST)), ("b", Fixed(finding))], is_open=True).check(["x"])


async def test_other_errors_are_not_passed_over() -> None:
    """Only what a screen says of itself opens the chain."""
    with pytest.raises(VitascopeError) as failed:
        await ScreenChain([("a", Fixed(VitascopeError(FailureCode.INTERNAL_ERROR)))], is_open=True).check(["x"])
    assert FailureCode.INTERNAL_ERROR is failed.value.code
