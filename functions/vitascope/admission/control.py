"""Control videos: the types that a model declares, the options of a type, and which files may hold one."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from pydantic import JsonValue

from vitascope.admission.fields import Fields, echo, refuse
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.models import ModelEntry

CONTROL_MAX_BYTES = 512 * 1024 * 1024
SOURCE_MAX_BYTES = 512 * 1024 * 1024
"""Of a control file, and of each source of an edit, as it is uploaded."""
CONTROL_IMAGES = frozenset({".bmp", ".gif", ".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp"})
CONTROL_VIDEOS = frozenset({".mkv", ".mov", ".mp4", ".webm"})
SOURCE_SUFFIXES = {"source_video": frozenset({".mp4", ".mov"}), "source_audio": frozenset({".wav", ".mp3"})}
_FIELD = "control_type"
_PATHS = ("control", "control_path")


def read_control_type(fields: Fields, entry: ModelEntry) -> str | None:
    """The type in lower case and without blanks around it; None if the request has none.

    Raises:
        VitascopeError: `invalid_request` if it is blank, `capability_missing` if the model does not declare it.
    """
    given = fields.read_str(_FIELD)
    if given is None:
        return None
    name = given.strip().lower()
    if not name:
        raise refuse(_FIELD, "control_type is blank.")
    types = entry.capabilities.control_types
    if name not in types:
        detail = f"{entry.name} takes control of the types {', '.join(types) or 'none'}, not {echo(name)}."
        raise VitascopeError(FailureCode.CAPABILITY_MISSING, detail, param=_FIELD)
    return name


def read_control_options(extras: Mapping[str, JsonValue], control_type: str) -> Mapping[str, JsonValue]:
    """What `extra_params.TYPE` says: absent and `true` say nothing, an object holds options of the model.

    Raises:
        VitascopeError: `invalid_request`: anything else, or a path; the file itself is what is uploaded.
    """
    options = extras.get(control_type)
    if options is None or options is True:
        return {}
    if not isinstance(options, dict):
        raise refuse("extra_params", f"extra_params.{control_type} must be true or an object, not {echo(options)}.")
    for name in (name for name in _PATHS if name in options):
        detail = f"extra_params.{control_type}.{name} and control_reference cannot come together: send the file."
        raise refuse("extra_params", detail)
    return options


def check_control_file(name: str | None, media_type: str | None) -> None:
    """Refuse a file by what it is said to be, before a byte of it is read. Its content is the media reader's matter.

    Args:
        name: the file's name as the client sent it; only its suffix is looked at.
        media_type: its Content-Type as the client sent it.

    Raises:
        VitascopeError: `media_invalid`.
    """
    suffix, allowed = _suffix(name), CONTROL_IMAGES | CONTROL_VIDEOS
    if (media_type or "").lower().startswith("audio/") or (suffix and suffix not in allowed):
        listed = ", ".join(sorted(part.removeprefix(".") for part in allowed))
        raise VitascopeError(
            FailureCode.MEDIA_INVALID, f"control_reference is a file of type {listed}.", param="control_reference"
        )


def check_source_file(field: str, name: str | None) -> None:
    """Refuse a source of an edit by its suffix.

    Args:
        field: `source_video` or `source_audio`.
        name: the file's name as the client sent it.

    Raises:
        VitascopeError: `media_invalid`.
    """
    allowed = SOURCE_SUFFIXES[field]
    if _suffix(name) not in allowed:
        listed = ", ".join(sorted(part.removeprefix(".") for part in allowed))
        raise VitascopeError(FailureCode.MEDIA_INVALID, f"{field} is a file of type {listed}.", param=field)


def _suffix(name: str | None) -> str:
    return PurePosixPath((name or "").replace("\\", "/")).suffix.lower()
