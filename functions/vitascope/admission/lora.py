"""LoRA: which adapter, where it is, how strongly it counts."""

import re
from collections.abc import Mapping

from pydantic import JsonValue

from vitascope.admission.fields import Fields, echo, refuse
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import Lora
from vitascope.contracts.models import ModelEntry

FIELD = "lora"
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "lora_name", "adapter"),
    "path": ("path", "local_path", "lora_path", "lora_local_path"),
    "scale": ("scale", "lora_scale"),
    "int_id": ("int_id", "lora_int_id"),
}
MIN_SCALE, MAX_SCALE = -10.0, 10.0
"""Far beyond what leaves a picture; a negative scale takes the adapter's style away."""
MAX_INT_ID = 2**31 - 1

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PATH = re.compile(r"[A-Za-z0-9:._/@-]{1,255}")


def read_lora(fields: Fields, entry: ModelEntry) -> Lora | None:
    """The adapter of the request; None if it names none.

    Raises:
        VitascopeError: `unknown_field`, `invalid_request`; the path is outside what the model's entry allows.
    """
    content = fields.read_map(FIELD)
    if fields.find(FIELD)[1] is None:
        return None
    known = [spelling for spellings in SPELLINGS.values() for spelling in spellings]
    for key in content:
        if key not in known:
            allowed = ", ".join(spellings[0] for spellings in SPELLINGS.values())
            raise VitascopeError(FailureCode.UNKNOWN_FIELD, f"lora takes {allowed}, not {echo(key)}.", param=FIELD)
    name, path = (_find(content, part) for part in ("name", "path"))
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise refuse(FIELD, f"lora.name must be 1 to 64 letters, digits, dots, hyphens, underscores, not {echo(name)}.")
    return Lora(name=name, path=_check_path(path, entry), scale=_read_scale(content), int_id=_read_int_id(content))


def _check_path(path: JsonValue, entry: ModelEntry) -> str:
    """The path, if it lies where the operator keeps adapters: a request never names any other file of the service."""
    sources = entry.capabilities.lora_sources
    if not isinstance(path, str) or _PATH.fullmatch(path) is None or {".", ".."} & set(path.split("/")):
        raise refuse(FIELD, f"lora.path must be a plain path or address, not {echo(path)}.")
    if not path.startswith(sources):
        raise refuse(FIELD, f"lora.path must begin with {' or '.join(sources)}.")
    return path


def _read_scale(content: Mapping[str, JsonValue]) -> float:
    scale = _find(content, "scale")
    if scale is None:
        return 1.0
    if not isinstance(scale, (int, float)) or isinstance(scale, bool) or not MIN_SCALE <= scale <= MAX_SCALE:
        raise refuse(FIELD, f"lora.scale must be a number from {MIN_SCALE:g} to {MAX_SCALE:g}, not {echo(scale)}.")
    return float(scale)


def _read_int_id(content: Mapping[str, JsonValue]) -> int | None:
    number = _find(content, "int_id")
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MAX_INT_ID:
        raise refuse(FIELD, f"lora.int_id must be a whole number from 1 to {MAX_INT_ID}, not {echo(number)}.")
    return number


def _find(content: Mapping[str, JsonValue], part: str) -> JsonValue:
    """The value under whichever spelling the client used; two that differ are refused."""
    try:
        return Fields(content).find(*SPELLINGS[part])[1]
    except VitascopeError as error:
        raise refuse(FIELD, f"lora says {part} in two ways that differ.") from error
