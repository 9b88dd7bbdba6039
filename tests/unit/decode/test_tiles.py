"""Plans of tile sizes: first as configured, then smaller and smaller, none of them for nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.decode.tiles import MIN_TILE_PX, TILE_STEP_PX, plan_tiles


@pytest.mark.parametrize(
    ("width", "height", "tile_px", "plan"),
    [
        pytest.param(1280, 720, None, (None, 640, 320, 160, 80), id="720p whole"),
        pytest.param(720, 1280, None, (None, 640, 320, 160, 80), id="upright"),
        pytest.param(1280, 720, 256, (256, 128, 64), id="configured tiles"),
        pytest.param(256, 256, 1024, (1024, 128, 64), id="tile larger than the frame"),
        pytest.param(64, 64, None, (None,), id="nothing smaller"),
        pytest.param(832, 480, None, (None, 416, 208, 96), id="rounded down to whole latents"),
    ],
)
def test_plan(width: int, height: int, tile_px: int | None, plan: tuple[int | None, ...]) -> None:
    """The whole plan of a shape."""
    assert plan == plan_tiles(width, height, tile_px)


@given(st.integers(2, 16384), st.integers(2, 16384), st.none() | st.integers(64, 4096))
def test_every_further_try_needs_less(width: int, height: int, tile_px: int | None) -> None:
    """Sizes fall, tile the frame, and stay whole latents above the minimum."""
    first, *further = plan_tiles(width, height, tile_px)
    assert first == tile_px
    sizes = [max(width, height) if tile_px is None else tile_px, *(size for size in further if size is not None)]
    assert sizes == sorted(set(sizes), reverse=True)
    assert all(MIN_TILE_PX <= size < max(width, height) for size in sizes[1:])
    assert all(size % TILE_STEP_PX == 0 for size in sizes[1:])
