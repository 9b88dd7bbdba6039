"""What a request brings beside its body: media that is still to be read, and which door it came through. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vitascope.contracts.ids import JobId
from vitascope.contracts.jobs import ObjectRef, Reference, ReferenceRole
from vitascope.contracts.models import ModelEntry
from vitascope.ingress.references import ReferenceSource

_NO_OBJECT = ObjectRef(key="", bytes=0, sha256="0" * 64)


@dataclass(frozen=True)
class Wish:
    """A request without its body.

    Attributes:
        sources: where the media is, masks included.
        masks: the contents of the masks, by role.
        source_job: the finished job whose video is among the media, if one is.
        door: which API it came through, if not /v1/video-jobs.
        digest: of all that the request says, hexadecimal SHA-256; None if its body says all.
        quality: as `Admission.quality`.
        wants_metrics: as `Admission.wants_metrics`.
    """

    sources: Sequence[ReferenceSource] = ()
    masks: Mapping[ReferenceRole, bytes] = field(default_factory=dict)
    source_job: JobId | None = None
    door: str | None = None
    digest: str | None = None
    quality: str | None = None
    wants_metrics: bool = False


PLAIN = Wish()


def stand_in(sources: Sequence[ReferenceSource], entry: ModelEntry) -> tuple[Reference, ...]:
    """References such as reading the sources may give at best.

    With them a request that would be refused whatever its media is can be refused before anything is fetched. What may
    be an image or a video is what the model takes of them.
    """
    roles = _guess(sources, entry)
    return tuple(
        Reference(
            role=source.role if source.role is not None else next(roles),
            object=_NO_OBJECT,
            media_type="",
            has_audio=True,
        )
        for source in sources
    )


def _guess(sources: Sequence[ReferenceSource], entry: ModelEntry) -> Iterator[ReferenceRole]:
    """For each source that may be either: images as far as the model takes them, then videos; or all of one kind."""
    can, known = entry.capabilities, [source.role for source in sources]
    count = known.count(None)
    images = max(0, can.max_images - known.count(ReferenceRole.IMAGE))
    if not can.mixes_references:
        has_video, has_image = ReferenceRole.VIDEO in known, ReferenceRole.IMAGE in known
        is_video = not has_image and (has_video or images < count <= can.max_videos or not can.max_images)
        images = 0 if is_video and can.max_videos else count
    for place in range(count):
        yield ReferenceRole.IMAGE if place < images else ReferenceRole.VIDEO
