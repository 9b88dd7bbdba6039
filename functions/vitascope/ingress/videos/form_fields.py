"""From the texts of a form to the values of a JSON body. Pure.

A form has no types, so a field's name says what its text is read as. An empty text is an absent field. Objects come as
JSON, or, as some clients send them, in parts `name[key]`.
"""

import math
import re
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl

from pydantic import JsonValue

from vitascope.admission import MEDIA_FIELDS, parse_body
from vitascope.admission.fields import echo, refuse
from vitascope.contracts.failures import VitascopeError

MAX_KEYS = 4
"""Of one name: `a[b][c]` has three."""
_INTEGER = re.compile(r"([+-]?[0-9]{1,30})(\.0{1,30})?")
_NUMBER = re.compile(r"[+-]?([0-9]{1,30}(\.[0-9]{0,60})?|\.[0-9]{1,60})(e[+-]?[0-9]{1,4})?", re.IGNORECASE)
_WORDS = {
    **dict.fromkeys(("true", "1", "yes", "on", "t", "y"), True),
    **dict.fromkeys(("false", "0", "no", "off", "f", "n"), False),
}
_NAME = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")
_KEY = re.compile(r"\[([^\[\]]*)\]")

_INTEGERS = (
    "width", "height", "frames", "num_frames", "steps", "num_inference_steps", "seed", "frame_interpolation_exp",
    "short_edge", "num_outputs_per_prompt",
)  # fmt: skip
_NUMBERS = (
    "guidance", "guidance_scale", "guidance_scale_2", "true_cfg_scale", "boundary_ratio", "flow_shift",
    "sound_duration", "frame_interpolation_scale", "start_time_seconds",
)  # fmt: skip
_MAYBE_NUMBERS = ("fps", "start_deadline")
"""A number, or text with a meaning of its own: a ratio, a time."""
_SWITCHES = ("generate_sound", "enable_frame_interpolation", "return_stage_metrics")
_OBJECTS = ("lora", "extra_params", "video_codec_options", "labels")


def read_fields(texts: Mapping[str, str]) -> dict[str, JsonValue]:
    """The body that a form stands for.

    Raises:
        VitascopeError: `invalid_request`, with the field as `param`.
    """
    body: dict[str, JsonValue] = {}
    parts: dict[str, dict[tuple[str, ...], str]] = {}
    for name, text in texts.items():
        if text == "":
            continue
        match = _NAME.fullmatch(name)
        keys = tuple(_KEY.findall(match[2])) if match is not None else ()
        if match is None or not keys:
            body[name] = _READERS.get(name, _read_text)(name, text)
        else:
            parts.setdefault(match[1], {})[keys] = text
    for name, leaves in parts.items():
        if name in body:
            raise refuse(name, f"{name} comes as a whole and in parts.")
        body[name] = _assemble(name, leaves)
    return body


def parse_urlencoded(content: bytes, max_parts: int) -> dict[str, str]:
    """The texts of a form in the other notation; of a field that is repeated, the last.

    Raises:
        VitascopeError: `invalid_request`.
    """
    try:
        pairs = parse_qsl(content.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=max_parts)
    except ValueError as error:  # not ASCII, not UTF-8 behind it, or too many
        raise refuse("body", f"The body is not a form of at most {max_parts} fields in UTF-8.") from error
    return dict(pairs)


def _read_text(_: str, text: str) -> JsonValue:
    return text


def _read_integer(name: str, text: str) -> JsonValue:
    match = _INTEGER.fullmatch(text.strip())
    if match is None:
        raise refuse(name, f"{name} must be a whole number, not {echo(text)}.")
    return int(match[1])


def _read_number(name: str, text: str) -> JsonValue:
    number = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
    if not math.isfinite(number):
        raise refuse(name, f"{name} must be a number, not {echo(text)}.")
    return number


def _read_maybe_number(_: str, text: str) -> JsonValue:
    whole = _INTEGER.fullmatch(text.strip())
    if whole is not None:
        return int(whole[1])
    number = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
    return number if math.isfinite(number) else text.strip()


def _read_switch(name: str, text: str) -> JsonValue:
    value = _WORDS.get(text.strip().lower())
    if value is None:
        raise refuse(name, f"{name} must be true or false, not {echo(text)}.")
    return value


def _read_object(name: str, text: str) -> JsonValue:
    """An object as JSON; `null` is an absent field."""
    value = _parse(name, text)
    if value is not None and not isinstance(value, dict):
        raise refuse(name, f"{name} must be a JSON object, not {echo(value)}.")
    return value


def _read_media(name: str, text: str) -> JsonValue:
    """The place of media: JSON, or the address itself."""
    return _parse(name, text) if text.lstrip()[:1] in {"{", "["} or text.strip() == "null" else text.strip()


def _parse(name: str, text: str) -> JsonValue:
    try:
        holder = parse_body(b'{"value":' + text.encode("utf-8", "surrogatepass") + b"}")
    except VitascopeError as error:
        raise refuse(name, f"{name} is not JSON, or not such as is taken: {error.detail}") from error
    if len(holder) != 1:
        raise refuse(name, f"{name} is not JSON.")
    return holder["value"]


def _assemble(name: str, leaves: Mapping[tuple[str, ...], str]) -> JsonValue:
    """The object whose parts are given; what looks like a number or a switch is one, but for addresses and labels."""
    if all(keys in {("",), ("0",)} for keys in leaves) and len(leaves) == 1:
        return _READERS.get(name, _read_text)(name, next(iter(leaves.values())))
    is_text = name in MEDIA_FIELDS or name == "labels"
    made: dict[str, JsonValue] = {}
    for keys, text in leaves.items():
        if len(keys) >= MAX_KEYS or "" in keys:
            raise refuse(name, f"{name} has a part that names no key, or too many.")
        place = made
        for key in keys[:-1]:
            inner = place.setdefault(key, {})
            if not isinstance(inner, dict):
                raise refuse(name, f"{name} has a part inside of what is no object.")
            place = inner
        if keys[-1] in place:
            raise refuse(name, f"{name} has two parts of one key.")
        place[keys[-1]] = text if is_text else _guess(text)
    return made


def _guess(text: str) -> JsonValue:
    lowered = text.strip().lower()
    if lowered in {"true", "false"}:
        return lowered == "true"
    return _read_maybe_number("", text) if _NUMBER.fullmatch(lowered) else text


_READERS: Mapping[str, Callable[[str, str], JsonValue]] = {
    **dict.fromkeys(_INTEGERS, _read_integer),
    **dict.fromkeys(_NUMBERS, _read_number),
    **dict.fromkeys(_MAYBE_NUMBERS, _read_maybe_number),
    **dict.fromkeys(_SWITCHES, _read_switch),
    **dict.fromkeys(_OBJECTS, _read_object),
    **dict.fromkeys(MEDIA_FIELDS, _read_media),
}
