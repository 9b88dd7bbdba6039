"""A latent-mask edit at the door: each mask fits the clip, and has the source that it keeps parts of."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from vitascope.admission.fields import refuse
from vitascope.admission.mask_text import parse_mask
from vitascope.admission.masks import count_audio_latents, make_grid, read_audio_cells, read_video_cells
from vitascope.admission.references import EDIT_ROLES, FIELD_OF_ROLE
from vitascope.contracts.jobs import Reference, ReferenceRole
from vitascope.contracts.models import LatentEdit, ModelEntry
from vitascope.contracts.shapes import Bucket

VIDEO, AUDIO = ReferenceRole.VIDEO_MASK, ReferenceRole.AUDIO_MASK


def choose_kept(
    references: Sequence[Reference],
    masks: Mapping[ReferenceRole, bytes],
    entry: ModelEntry,
    *,
    bucket: Bucket,
    fps: Fraction,
) -> tuple[Reference, ...]:
    """The references that the job needs. A mask of ones keeps nothing of its source: both are left out.

    Raises:
        VitascopeError: `invalid_request`: a mask does not fit the clip, or keeps parts of a source that is missing.
    """
    by_role = {reference.role: reference for reference in references}
    assert masks.keys() == by_role.keys() & {VIDEO, AUDIO}, "each mask comes with its contents"
    edit = entry.capabilities.latent_edit
    if edit is None:
        return tuple(references)
    needed: set[ReferenceRole] = set()
    if VIDEO in masks and _keeps_video(masks[VIDEO], edit, bucket):
        if ReferenceRole.SOURCE_VIDEO not in by_role:
            raise refuse("source_video", "video_noise_mask keeps parts of source_video, which is missing.")
        needed |= {VIDEO, ReferenceRole.SOURCE_VIDEO}
    if AUDIO in masks and _keeps_audio(masks[AUDIO], edit, bucket, fps):
        needed |= {AUDIO, _find_sound(by_role)}
    return tuple(reference for reference in references if reference.role not in EDIT_ROLES - needed)


def _find_sound(by_role: Mapping[ReferenceRole, Reference]) -> ReferenceRole:
    """What the sound comes from."""
    if ReferenceRole.SOURCE_AUDIO in by_role:
        return ReferenceRole.SOURCE_AUDIO
    video = by_role.get(ReferenceRole.SOURCE_VIDEO)
    if video is None or not video.has_audio:
        detail = "audio_noise_mask keeps parts of source_audio, or of the sound of source_video; there is neither."
        raise refuse("source_audio", detail)
    return ReferenceRole.SOURCE_VIDEO


def _keeps_video(content: bytes, edit: LatentEdit, bucket: Bucket) -> bool:
    field = FIELD_OF_ROLE[VIDEO]
    grid = make_grid(edit, width=bucket.width, height=bucket.height, num_frames=bucket.num_frames)
    return bool((read_video_cells(field, parse_mask(field, content), grid) < 1).any())


def _keeps_audio(content: bytes, edit: LatentEdit, bucket: Bucket, fps: Fraction) -> bool:
    field = FIELD_OF_ROLE[AUDIO]
    latents = count_audio_latents(edit, bucket.num_frames, fps)
    return bool((read_audio_cells(field, parse_mask(field, content), latents) < 1).any())
