"""`extra_params`: each of them declared by the model, with its type and bounds; or one of ours that travels there."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from vitascope.admission.capabilities import CAPABILITY_FIELDS, lacks
from vitascope.admission.control import read_control_options
from vitascope.admission.fields import Fields, echo, refuse
from vitascope.admission.text import check_text
from vitascope.contracts.models import Extra, ModelEntry

FIELD = "extra_params"
LIFTED = ("flow_shift", "sound_duration", "video_codec_options")
"""Fields of the body that clients of the peer send in here. Both places mean the same, and must agree."""
PREENCODE, BATCH = "preencode_mp4", "preencode_batch_frames"
"""How the peer is asked to encode while it decodes. This service always does, and the frames are the same: the values
are checked, and change nothing."""
MAX_BATCH_FRAMES = 2**31 - 1
MAX_TEXT_BYTES = 512

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


def lift(body: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """The body with the fields that `extra_params` holds beside it, each as `extra_params.NAME`."""
    extras = body.get(FIELD)
    held = extras if isinstance(extras, dict) else {}
    return {**body, **{f"{FIELD}.{name}": held[name] for name in LIFTED if name in held}}


def read_extras(fields: Fields, entry: ModelEntry, control_type: str | None) -> dict[str, JsonValue]:
    """What the model's blocks get beyond the common fields; options of the control under the control's type.

    Raises:
        VitascopeError: `capability_missing`, the model does not declare it; `invalid_request`.
    """
    _check_encoding(fields.read_map(FIELD), fields)
    given = {name: value for name, value in fields.read_map(FIELD).items() if value is not None}
    kept: dict[str, JsonValue] = {}
    if control_type is not None:
        options = read_control_options(given, control_type)
        place = _Place(f"{FIELD}.{control_type}", entry, entry.capabilities.control_options)
        kept[control_type] = {name: _check(place, name, value) for name, value in options.items() if value is not None}
    for name in LIFTED:
        if name in given and not CAPABILITY_FIELDS.get(name, _any_model)(entry):
            raise lacks(entry, f"{FIELD}.{name}")
    ours = {*LIFTED, PREENCODE, BATCH, *kept}
    place = _Place(FIELD, entry, entry.capabilities.extra_params)
    kept |= {name: _check(place, name, value) for name, value in given.items() if name not in ours}
    return {name: value for name, value in kept.items() if value != {}}


def _any_model(_entry: ModelEntry) -> bool:
    return True


@dataclass(frozen=True)
class _Place:
    """An object of options: what the client calls it, and which of them the model declares."""

    name: str
    entry: ModelEntry
    declared: Mapping[str, Extra]


def _check_encoding(given: Mapping[str, JsonValue], fields: Fields) -> None:
    if not given.get(PREENCODE):
        return
    frames = given.get(BATCH)
    is_whole = isinstance(frames, int) and not isinstance(frames, bool)
    if BATCH in given and not (is_whole and isinstance(frames, int) and 1 <= frames <= MAX_BATCH_FRAMES):
        raise refuse(f"{FIELD}.{BATCH}", f"{BATCH} must be a whole number from 1, not {echo(frames)}.")
    if fields.read_bool("enable_frame_interpolation"):
        raise refuse(f"{FIELD}.{PREENCODE}", f"{PREENCODE} and enable_frame_interpolation cannot come together.")


def _check(place: _Place, name: str, value: JsonValue) -> JsonValue:
    if name not in place.declared:
        if _NAME.fullmatch(name) is None:
            raise refuse(FIELD, f"{place.name} has the name {echo(name)}, which nothing has.")
        offer = ", ".join(sorted(place.declared)) or "none"
        raise lacks(place.entry, f"{place.name}.{name}", f"Of {place.name} it takes: {offer}.")
    extra, where = place.declared[name], f"{place.name}.{name}"
    if extra.type == "boolean":
        return _expect(isinstance(value, bool), where, "true or false", value)
    if extra.type == "string":
        if not isinstance(value, str) or (extra.choices and value not in extra.choices):
            raise refuse(where, f"{where} must be {_of(extra)}, not {echo(value)}.")
        return check_text(where, value, MAX_TEXT_BYTES)
    kinds = (int,) if extra.type == "integer" else (int, float)
    low, high = extra.minimum, extra.maximum
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    is_inside = is_number and isinstance(value, (int, float)) and _is_between(value, low, high)
    return _expect(is_inside, where, _of(extra), value)


def _is_between(value: float, low: float | None, high: float | None) -> bool:
    return (-_HUGE if low is None else low) <= value <= (_HUGE if high is None else high)


_HUGE = 2.0**63
"""The bound of a number whose entry names none: keeps out what no tensor holds, and infinity."""


def _of(extra: Extra) -> str:
    if extra.type == "string":
        return f"one of {', '.join(extra.choices)}" if extra.choices else "a string"
    words = "a whole number" if extra.type == "integer" else "a number"
    words += f" from {extra.minimum:g}" if extra.minimum is not None else ""
    return words + (f" to {extra.maximum:g}" if extra.maximum is not None else "")


def _expect(is_right: bool, where: str, wish: str, value: JsonValue) -> JsonValue:  # noqa: FBT001 (what is checked)
    if not is_right:
        raise refuse(where, f"{where} must be {wish}, not {echo(value)}.")
    return value
