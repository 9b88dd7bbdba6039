"""Which tile sizes to try, one after the other, when memory runs out."""

MIN_TILE_PX = 64
"""Below this, more is spent on the overlap of tiles than on their pixels."""
TILE_STEP_PX = 16
"""Tiles are whole latents: 8 or 16 pixels in all VAEs that are offered."""


def plan_tiles(width: int, height: int, tile_px: int | None) -> tuple[int | None, ...]:
    """Tile sizes in pixels, the first as configured (None: whole frames), each further one about half as wide.

    None of the further ones is so large that the frame would be one tile, which would save nothing.
    """
    longest_px = max(width, height)
    sizes: list[int | None] = [tile_px]
    next_px = _halve(longest_px if tile_px is None else min(tile_px, longest_px))
    while next_px >= MIN_TILE_PX:
        sizes.append(next_px)
        next_px = _halve(next_px)
    return tuple(sizes)


def _halve(size_px: int) -> int:
    return size_px // 2 // TILE_STEP_PX * TILE_STEP_PX
