"""Reference media: what may come together, how many of each a model takes, and which task that makes of a request."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from vitascope.admission.capabilities import MEDIA_FIELDS, lacks
from vitascope.admission.fields import refuse
from vitascope.contracts.jobs import Reference, ReferenceRole
from vitascope.contracts.models import ModelEntry, Task

MAX_REFERENCES = 12
"""Of one job, of all kinds together: what MiniMax H3 takes, and what a record has room for."""

FIELD_OF_ROLE = {
    ReferenceRole.IMAGE: "image_reference",
    ReferenceRole.VIDEO: "video_reference",
    ReferenceRole.AUDIO: "audio_reference",
    ReferenceRole.CONTROL: "control_reference",
    ReferenceRole.SOURCE_VIDEO: "source_video",
    ReferenceRole.SOURCE_AUDIO: "source_audio",
    ReferenceRole.VIDEO_MASK: "video_noise_mask",
    ReferenceRole.AUDIO_MASK: "audio_noise_mask",
}
"""The field that a refusal names, if the one that the client used is not known."""

_APART = (
    ("input_reference", ("image_reference", "video_reference")),
    ("input_references", ("input_reference", "image_reference", "video_reference", "audio_reference")),
)
_ROLES_OF_FIELD = {
    **{field: {role} for role, field in FIELD_OF_ROLE.items()},
    "input_reference": {ReferenceRole.IMAGE, ReferenceRole.VIDEO},
    "input_references": {ReferenceRole.IMAGE, ReferenceRole.VIDEO, ReferenceRole.AUDIO},
}


def check_together(names: Collection[str]) -> None:
    """Refuse fields that exclude or need each other, by the names of the fields alone.

    Raises:
        VitascopeError: `invalid_request`.
    """
    for name, others in _APART:
        for other in (other for other in others if name in names and other in names):
            raise refuse(name, f"{name} and {other} cannot come together: send one of them.")
    for name, other in (("control_reference", "control_type"), ("control_type", "control_reference")):
        if name in names and other not in names:
            raise refuse(other, f"{name} needs {other}.")
    masks = {"video_noise_mask", "audio_noise_mask"} & set(names)
    for name in ("source_video", "source_audio"):
        if name in names and not masks:
            raise refuse(name, f"{name} needs video_noise_mask or audio_noise_mask: they say what of it is kept.")
    if "source_audio" in names and "audio_noise_mask" not in names:
        raise refuse("source_audio", "source_audio needs audio_noise_mask.")


def check_counts(roles: Iterable[ReferenceRole], entry: ModelEntry) -> None:
    """Refuse more media than the model takes, or images with videos where it takes one or the other.

    Raises:
        VitascopeError: `capability_missing`, `invalid_request`.
    """
    counts, can = Counter(roles), entry.capabilities
    limits = {
        ReferenceRole.IMAGE: can.max_images,
        ReferenceRole.VIDEO: can.max_videos,
        ReferenceRole.AUDIO: can.max_audios,
        ReferenceRole.CONTROL: 1 if can.control_types else 0,
    } | dict.fromkeys(EDIT_ROLES, 1 if can.latent_edit else 0)
    for role, count in counts.items():
        name = FIELD_OF_ROLE[role]
        if not limits[role]:
            raise lacks(entry, name)
        if count > limits[role]:
            raise refuse(name, f"{entry.name} takes at most {limits[role]} of kind {role}, not {count}.")
    if counts.total() > MAX_REFERENCES:
        raise refuse("input_references", f"A request has at most {MAX_REFERENCES} references, not {counts.total()}.")
    if counts[ReferenceRole.IMAGE] and counts[ReferenceRole.VIDEO] and not can.mixes_references:
        raise refuse("video_reference", f"{entry.name} takes images or videos, not both together.")


EDIT_ROLES = frozenset(
    {
        ReferenceRole.SOURCE_VIDEO,
        ReferenceRole.SOURCE_AUDIO,
        ReferenceRole.VIDEO_MASK,
        ReferenceRole.AUDIO_MASK,
    },
)
"""What a latent-mask edit is made of."""


def check_read(names: Collection[str], references: Sequence[Reference]) -> None:
    """Refuse a media field that no media was read from: text where a file belongs.

    Raises:
        VitascopeError: `invalid_request`.
    """
    roles = {reference.role for reference in references}
    for name in (name for name in MEDIA_FIELDS if name in names):
        if not roles & _ROLES_OF_FIELD[name]:
            raise refuse(name, f"{name} is a file, or an object that says where the media is.")


def choose_task(references: Sequence[Reference], entry: ModelEntry) -> Task:
    """What the media makes of the request, if the model does such tasks.

    Raises:
        VitascopeError: `capability_missing`: the model makes nothing of these references, or of none.
    """
    roles = {reference.role for reference in references}
    task = next((task for task, signs in _SIGNS if roles & signs), Task.T2V)
    if task in entry.tasks:
        return task
    offer = ", ".join(entry.tasks)
    if task is Task.T2V:
        needed = _NEEDED.get(entry.tasks[0], "input_reference") if entry.tasks else "input_reference"
        raise refuse(needed, f"{entry.name} needs {needed}: it does {offer}, not {task}.")
    field = next(FIELD_OF_ROLE[reference.role] for reference in references)
    raise lacks(entry, field, f"It does {offer}, not {task}.")


_SIGNS: Sequence[tuple[Task, frozenset[ReferenceRole]]] = (
    (Task.EDIT, EDIT_ROLES),
    (Task.CONTROL, frozenset({ReferenceRole.CONTROL})),
    (Task.S2V, frozenset({ReferenceRole.AUDIO})),
    (Task.V2V, frozenset({ReferenceRole.VIDEO})),
    (Task.I2V, frozenset({ReferenceRole.IMAGE})),
)
"""The first whose media is there names the task."""
_NEEDED = {
    Task.I2V: "image_reference",
    Task.V2V: "video_reference",
    Task.S2V: "audio_reference",
    Task.EDIT: "video_noise_mask",
    Task.CONTROL: "control_reference",
}
