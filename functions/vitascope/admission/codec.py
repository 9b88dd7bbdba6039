"""Encoder options from clients: a short list, each checked, so that nothing reaches the encoder unseen."""

import re

from pydantic import JsonValue

from vitascope.admission.fields import Fields, echo, refuse
from vitascope.contracts.encoding import MAX_CRF, MIN_CRF, PRESETS
from vitascope.contracts.failures import FailureCode, VitascopeError

FIELD = "video_codec_options"
_OPTIONS = ("crf", "preset")


def read_codec_options(fields: Fields) -> dict[str, str]:
    """The options as the encoder takes them; what is absent is the encode pool's own setting."""
    options = fields.read_map(FIELD, f"extra_params.{FIELD}")
    for name in options:
        if name not in _OPTIONS:
            allowed = ", ".join(_OPTIONS)
            raise VitascopeError(FailureCode.UNKNOWN_FIELD, f"{FIELD} takes {allowed}, not {echo(name)}.", param=FIELD)
    readers = {"crf": _read_crf, "preset": _read_preset}
    return {name: readers[name](value) for name, value in options.items() if value is not None}


def _read_crf(value: JsonValue) -> str:
    number = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,2}", value) else value
    if not isinstance(number, int) or isinstance(number, bool) or not MIN_CRF <= number <= MAX_CRF:
        raise refuse(FIELD, f"{FIELD}.crf must be a whole number from {MIN_CRF} to {MAX_CRF}, not {echo(value)}.")
    return str(number)


def _read_preset(value: JsonValue) -> str:
    if not isinstance(value, str) or value not in PRESETS:
        raise refuse(FIELD, f"{FIELD}.preset must be one of {', '.join(PRESETS)}, not {echo(value)}.")
    return value
