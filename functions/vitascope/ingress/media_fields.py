"""The media of a request: which files, URLs and objects stand in its fields, and what each is to the job. Pure.

`input_reference` is an image or a video, whichever it turns out to be. `image_reference`, `video_reference` and
`audio_reference` are objects, or lists of objects, that say where the media is. Every one of them may as well be a file
or the URL itself, and so may the control and the sources of an edit; masks are files, or JSON numbers in a JSON body.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from vitascope.admission import (
    CONTROL_MAX_BYTES,
    MASK_MAX_BYTES,
    MEDIA_FIELDS,
    SOURCE_MAX_BYTES,
    check_control_file,
    check_source_file,
)
from vitascope.admission.fields import echo, refuse
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import ReferenceRole
from vitascope.ingress.data_urls import PREFIX
from vitascope.ingress.forms import Upload
from vitascope.ingress.references import ReferenceSource

MAX_IN_A_LIST = 16
"""Objects of one field; a model takes fewer."""
MASKS = {"video_noise_mask": ReferenceRole.VIDEO_MASK, "audio_noise_mask": ReferenceRole.AUDIO_MASK}
REPEATED = frozenset({"input_references", "image_reference", "video_reference", "audio_reference"})
"""Fields that may have several files."""
_ROLES: Mapping[str, ReferenceRole | None] = {
    "input_reference": None,
    "input_references": None,
    "image_reference": ReferenceRole.IMAGE,
    "video_reference": ReferenceRole.VIDEO,
    "audio_reference": ReferenceRole.AUDIO,
    "control_reference": ReferenceRole.CONTROL,
    "source_video": ReferenceRole.SOURCE_VIDEO,
    "source_audio": ReferenceRole.SOURCE_AUDIO,
    **MASKS,
}
_IMAGE, _VIDEO, _AUDIO, _FILE = "image_url", "video_url", "audio_url", "file_id"
_KEYS: Mapping[ReferenceRole | None, Sequence[str]] = {
    None: (_IMAGE, _VIDEO, _FILE),
    ReferenceRole.IMAGE: (_IMAGE, _FILE),
    ReferenceRole.VIDEO: (_VIDEO, _FILE),
    ReferenceRole.AUDIO: (_AUDIO,),
    ReferenceRole.CONTROL: (_IMAGE, _VIDEO, _FILE),
    ReferenceRole.SOURCE_VIDEO: (_VIDEO, _FILE),
    ReferenceRole.SOURCE_AUDIO: (_AUDIO,),
}
_ROLE_OF_KEY = {_IMAGE: ReferenceRole.IMAGE, _VIDEO: ReferenceRole.VIDEO}


@dataclass(frozen=True)
class Media:
    """What a request brings.

    Attributes:
        body: the request's fields; of media only the names.
        sources: where the media is, masks left out.
        masks: the files of the masks, by field.
    """

    body: dict[str, JsonValue]
    sources: tuple[ReferenceSource, ...]
    masks: Mapping[str, Upload]


def find_max_bytes(field: str, max_bytes: int) -> int | None:
    """How large a file of a field may be where references have at most `max_bytes`; None if the field takes none."""
    if field not in _ROLES:
        return None
    own = {"control_reference": CONTROL_MAX_BYTES, "source_video": SOURCE_MAX_BYTES, "source_audio": SOURCE_MAX_BYTES}
    return MASK_MAX_BYTES if field in MASKS else min(own.get(field, max_bytes), max_bytes)


def gather_media(body: Mapping[str, JsonValue], uploads: Sequence[Upload] = ()) -> Media:
    """Take the media out of a request.

    Raises:
        VitascopeError: `invalid_request`: neither a file nor a place, several where one is taken, or a `file_id`;
            `media_invalid`, a suffix that the field does not take.
    """
    given = {name: value for name, value in body.items() if name in MEDIA_FIELDS and value is not None}
    sources: list[ReferenceSource] = []
    masks: dict[str, Upload] = {}
    for name in dict.fromkeys([*(upload.field for upload in uploads), *given]):
        files = [upload for upload in uploads if upload.field == name]
        if files and name in given:
            raise refuse(name, f"{name} is a file or a text, not both.")
        if len(files) > 1 and name not in REPEATED:
            raise refuse(name, f"{name} is one file, not {len(files)}.")
        if name in MASKS:
            if not files:
                raise refuse(name, f"{name} is a file of JSON: a number from 0 to 1, or lists of them.")
            masks[name] = files[0]
        elif files:
            sources += _read_files(name, files)
        else:
            sources += _read_places(name, given[name])
    rest = {name: value for name, value in body.items() if name not in MEDIA_FIELDS}
    named: dict[str, JsonValue] = dict.fromkeys([*given, *(upload.field for upload in uploads)], True)
    return Media({**rest, **named}, tuple(sources), masks)


def _read_files(name: str, files: Sequence[Upload]) -> Iterator[ReferenceSource]:
    for file in files:
        if name == "control_reference":
            check_control_file(file.name, file.media_type)
        if name in {"source_video", "source_audio"}:
            check_source_file(name, file.name)
        yield ReferenceSource(name, _ROLES[name], upload=file.path)


def _read_places(name: str, value: JsonValue) -> Iterator[ReferenceSource]:
    if not isinstance(value, list):
        yield _read_place(name, name, value)
        return
    if name not in REPEATED or not 1 <= len(value) <= MAX_IN_A_LIST:
        raise refuse(name, f"{name} is no list, or has too many objects, or none; at most {MAX_IN_A_LIST} are read.")
    for index, item in enumerate(value):
        yield _read_place(f"{name}[{index}]", name, item)


def _read_place(param: str, name: str, value: JsonValue) -> ReferenceSource:
    """A URL, or an object with one."""
    role = _ROLES[name]
    if isinstance(value, str):
        return ReferenceSource(param, role, url=_check_url(param, value))
    keys = _KEYS[role]
    if not isinstance(value, dict) or len(value) != 1 or not set(value) <= set(keys):
        raise refuse(param, f"{param} is an object with one of {', '.join(keys)}, not {echo(value)}.")
    ((key, url),) = value.items()
    if key == _FILE:
        raise VitascopeError(FailureCode.INVALID_REQUEST, "file_id is not supported: there are no files.", param=param)
    if not isinstance(url, str):
        raise refuse(param, f"{param}.{key} is a string, not {echo(url)}.")
    found = _ROLE_OF_KEY.get(key) if role is None else role
    return ReferenceSource(param, found, url=_check_url(param, url))


def _check_url(param: str, url: str) -> str:
    scheme = url[:16].partition(":")[0].lower()
    if scheme not in {"http", "https", PREFIX[:-1]}:
        raise refuse(param, f"{param} is an http or https address or a data URL, not {echo(url)}.")
    return url
