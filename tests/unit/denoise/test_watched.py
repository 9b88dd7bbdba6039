"""What a watchdog sees of a denoise run, and the group's self-test."""

from typing import Any

import pytest

from unit.denoise.chain import STEPS, Chain
from vitascope.contracts.deadlines import compute_limits
from vitascope.contracts.flow import Stage
from vitascope.runtime.stage import Pulse


async def test_every_step_is_a_sign_of_life(chain: Chain) -> None:
    """The limits are the record's; once two steps are done the silence that is allowed follows their pace."""
    work = await chain.start()
    pulse, touches, allowed_s = Pulse(), list[int](), list[float]()

    async def look() -> None:
        touches.append(pulse.touches)
        allowed_s.append(pulse.stall_s)

    chain.denoiser.points.acts |= dict.fromkeys(range(1, STEPS + 1), look)
    await chain.denoise().handle(work, pulse)
    limits = compute_limits(await chain.record(work.job), Stage.DENOISE)
    assert limits == pulse.limits
    assert touches == sorted(set(touches))
    assert [limits.first_s] * 2 == allowed_s[:2]
    assert all(stall_s < limits.first_s for stall_s in allowed_s[2:])


async def test_uploads_have_the_longer_allowance(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last step no step is due: latents that take minutes to store are no silence."""
    work = await chain.start()
    pulse, put, seen = Pulse(), chain.store.put, list[tuple[bool, float]]()

    async def put_seen(key: str, *more: Any) -> object:
        if key.startswith("latents/"):
            seen.append((pulse.is_waiting, pulse.stall_s))
        return await put(key, *more)

    monkeypatch.setattr(chain.store, "put", put_seen)
    await chain.denoise().handle(work, pulse)
    assert [(True, pulse.limits.first_s)] == seen
    assert not pulse.is_waiting


async def test_checkpoint_that_waits_for_room_is_no_silence(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampler stands still for the upload of the checkpoint before: that is the store's time."""
    work = await chain.start()
    pulse, seen = Pulse(), list[bool]()
    handler = chain.denoise(checkpoint_every=1)

    def offer(*_what: object) -> None:
        seen.append(pulse.is_waiting)

    monkeypatch.setattr("vitascope.denoise.checkpoint.CheckpointSaver.offer", offer)
    await handler.handle(work, pulse)
    assert [True] * (STEPS - 1) == seen


async def test_self_test_runs_in_the_sampler(chain: Chain) -> None:
    """A denoiser that works proves it; one that does not says why."""
    handler = chain.denoise()
    await handler.prove()
    chain.denoiser.is_broken = True
    with pytest.raises(RuntimeError, match="the fake device is lost"):
        await handler.prove()
