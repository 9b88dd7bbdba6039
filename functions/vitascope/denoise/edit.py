"""A latent-mask edit in the engine's words: the model mask and the restore mask of picture and sound."""

from collections.abc import Mapping, Sequence

from vitascope.admission.mask_text import parse_mask
from vitascope.admission.masks import (
    Rows,
    count_audio_latents,
    force_audio_tail,
    make_audio_mask,
    make_grid,
    make_video_mask,
    read_audio_cells,
    read_video_cells,
)
from vitascope.contracts.jobs import Reference, ReferenceRole, VideoRequest
from vitascope.contracts.models import LatentEdit

MASKS = frozenset({ReferenceRole.VIDEO_MASK, ReferenceRole.AUDIO_MASK})
"""References that are numbers, not media."""
VIDEO_FIELD, AUDIO_FIELD = "video_noise_mask", "audio_noise_mask"


def read_edit(request: VideoRequest, references: Sequence[bytes], edit: LatentEdit) -> dict[str, Rows]:
    """The inputs of the model's blocks that its masks make, by the names that its entry declares.

    Args:
        request: what to make.
        references: contents of `request.references`, in their order.
        edit: the model's grids.

    Returns:
        float32 arrays, see `make_video_mask` and `make_audio_mask`; empty if the request has no mask.

    Raises:
        VitascopeError: `invalid_request`, a mask does not fit the clip: another release admitted it.
    """
    by_role = {reference.role: index for index, reference in enumerate(request.references)}
    made: dict[str, Rows] = {}
    at = by_role.get(ReferenceRole.VIDEO_MASK)
    if at is not None:
        grid = make_grid(edit, width=request.width, height=request.height, num_frames=request.num_frames)
        mask = make_video_mask(read_video_cells(VIDEO_FIELD, parse_mask(VIDEO_FIELD, references[at]), grid), edit)
        made |= {edit.video_mask_input: mask.model, edit.video_restore_input: mask.restore}
    at = by_role.get(ReferenceRole.AUDIO_MASK)
    if at is not None:
        latents = count_audio_latents(edit, request.num_frames, request.fps)
        cells = read_audio_cells(AUDIO_FIELD, parse_mask(AUDIO_FIELD, references[at]), latents)
        source = _find_sound(request.references, by_role)
        if source.duration_s is not None:
            cells = force_audio_tail(cells, edit, source.duration_s)
        mask = make_audio_mask(cells, edit)
        made |= {edit.audio_mask_input: mask.model, edit.audio_restore_input: mask.restore}
    return made


def _find_sound(references: Sequence[Reference], by_role: Mapping[ReferenceRole, int]) -> Reference:
    """What the sound comes from: admission lets no other mask of sound pass."""
    at = by_role.get(ReferenceRole.SOURCE_AUDIO, by_role.get(ReferenceRole.SOURCE_VIDEO))
    assert at is not None, "a mask of sound has a source"
    return references[at]
