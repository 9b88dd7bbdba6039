"""What the tests of the denoise handler share."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from unit.denoise.chain import Chain
from vitascope.runtime import persist


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, thread_name_prefix="engine") as executor:
        yield executor


@pytest.fixture
def other_pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, thread_name_prefix="other engine") as executor:
        yield executor


@pytest.fixture
async def chain(pool: ThreadPoolExecutor, tmp_path: Path) -> Chain:
    return Chain(pool, tmp_path)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persist, "DELAYS_S", (0.0, 0.0, 0.0))
