"""Free text from clients: any Unicode, but text and nothing else."""

import re
from collections.abc import Mapping

from pydantic import JsonValue

from vitascope.admission.fields import Fields, echo, refuse
from vitascope.contracts.jobs import NEGATIVE_PROMPT_MAX_BYTES, PROMPT_MAX_BYTES

MAX_LABELS = 16
LABEL_MAX_BYTES = 128
_LABEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")

# C0, DEL and C1 without line feed and tab: they have no meaning in a prompt and much in a terminal or a log.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def read_prompt(fields: Fields) -> str:
    """The prompt, as it was sent; 1 to `PROMPT_MAX_BYTES` bytes of UTF-8, not only white space."""
    prompt = fields.read_str("prompt")
    if prompt is None or not prompt.strip():
        raise refuse("prompt", "prompt is needed: say what the video shall show.")
    return check_text("prompt", prompt, PROMPT_MAX_BYTES)


def read_negative_prompt(fields: Fields) -> str:
    """The negative prompt; it may be empty."""
    negative = fields.read_str("negative_prompt")
    return check_text("negative_prompt", negative or "", NEGATIVE_PROMPT_MAX_BYTES)


def read_labels(fields: Fields) -> dict[str, str]:
    """The client's own labels: at most `MAX_LABELS`, each name and value short."""
    labels: Mapping[str, JsonValue] = fields.read_map("labels")
    if len(labels) > MAX_LABELS:
        raise refuse("labels", f"labels has {len(labels)} entries; at most {MAX_LABELS} are kept.")
    kept: dict[str, str] = {}
    for name, value in labels.items():
        if _LABEL_NAME.fullmatch(name) is None:
            allowed = "1 to 63 letters, digits, dots, slashes, hyphens and underscores"
            raise refuse("labels", f"A label's name is {allowed}, not {echo(name)}.")
        if not isinstance(value, str):
            raise refuse("labels", f"labels.{name} must be a string, not {echo(value)}.")
        kept[name] = check_text("labels", value, LABEL_MAX_BYTES)
    return kept


def check_text(param: str, text: str, max_bytes: int) -> str:
    """The text itself, if it is valid Unicode, short enough and free of control characters."""
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise refuse(param, f"{param} has half a surrogate pair at character {error.start}.") from error
    if size > max_bytes:
        raise refuse(param, f"{param} has {size} bytes in UTF-8; at most {max_bytes} are taken.")
    control = _CONTROL.search(text)
    if control is not None:
        point = f"U+{ord(control.group()):04X}"
        raise refuse(param, f"{param} has the control character {point} at character {control.start()}.")
    return text
