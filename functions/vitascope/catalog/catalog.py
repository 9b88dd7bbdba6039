"""Load the catalog and look models up in it."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, JsonValue, ValidationError

from vitascope.catalog.capabilities import find_faults
from vitascope.catalog.demo import make_demo_entry
from vitascope.contracts.ids import TOKEN_PATTERN
from vitascope.contracts.models import ModelEntry

MAX_MODELS = 1_000
"""A longer list is a mistake: every request that names no known model reads through the names."""


class CatalogInvalid(ValueError):
    """The catalog's file cannot be used. The message names the file, the entry and the field."""


@dataclass(frozen=True)
class Catalog:
    """The models on offer, in the order of the file; the first is taken when a request names none."""

    entries: tuple[ModelEntry, ...]

    @property
    def default(self) -> ModelEntry:
        """The model of a request that names none."""
        return self.entries[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Every model's name, in order."""
        return tuple(entry.name for entry in self.entries)

    def get(self, name: str) -> ModelEntry | None:
        """The model of exactly that name, or None."""
        return next((entry for entry in self.entries if entry.name == name), None)

    def of_pool(self, pool: str) -> tuple[ModelEntry, ...]:
        """The models that the groups of a pool serve."""
        return tuple(entry for entry in self.entries if entry.pool == pool)


def load_catalog(path: Path | None) -> Catalog:
    """The catalog in a JSON file: a list of model entries. Without a file, the demo model alone.

    Raises:
        CatalogInvalid: the file cannot be read, is not such a list, or an entry breaks a rule.
    """
    if path is None:
        return Catalog((make_demo_entry(),))
    entries = tuple(_parse_entry(path, index, item) for index, item in enumerate(_read_list(path)))
    _check_unique(path, "name", [entry.name for entry in entries])
    return Catalog(entries)


def _read_list(path: Path) -> list[JsonValue]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise CatalogInvalid(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CatalogInvalid(f"{path}: is not JSON: {error}") from error
    if not isinstance(content, list) or not 1 <= len(content) <= MAX_MODELS:
        raise CatalogInvalid(f"{path}: must be a JSON list of 1 to {MAX_MODELS} models")
    return content


def _parse_entry(path: Path, index: int, item: JsonValue) -> ModelEntry:
    name = item.get("name") if isinstance(item, dict) else None
    place = f"{path}: entry {index}" + (f" ({name})" if isinstance(name, str) else "")
    try:
        entry = ModelEntry.model_validate(item)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "entry"
        raise CatalogInvalid(f"{place}: {field}: {first['msg']}") from error
    for field in _unknown_fields(entry):
        raise CatalogInvalid(f"{place}: {field}: is not a field of a model entry")
    _check_entry(place, entry)
    return entry


def _unknown_fields(model: BaseModel) -> Iterator[str]:
    """Fields that a contract keeps but does not know: in a file that people write, they are slips of the pen."""
    yield from model.model_extra or ()
    for name in type(model).model_fields:
        for here, part in _parts(name, getattr(model, name)):
            if isinstance(part, BaseModel):
                yield from (f"{here}.{field}" for field in _unknown_fields(part))


def _parts(name: str, content: object) -> Iterator[tuple[str, object]]:
    """What a field holds, each with its place."""
    if isinstance(content, tuple):
        yield from ((f"{name}.{index}", part) for index, part in enumerate(content))
    elif isinstance(content, dict):
        yield from ((f"{name}.{key}", part) for key, part in content.items())
    else:
        yield name, content


def _check_entry(place: str, entry: ModelEntry) -> None:
    """What no single field can tell: names fit subjects, buckets differ, defaults lie inside the limits."""
    if re.fullmatch(TOKEN_PATTERN, entry.pool) is None:
        raise CatalogInvalid(f"{place}: pool: must be lower-case letters, digits and hyphens, at most 40")
    _check_unique(place, "buckets", [bucket.name for bucket in entry.buckets])
    _check_unique(place, "buckets", [f"{bucket.size} with {bucket.num_frames} frames" for bucket in entry.buckets])
    limits, defaults = entry.limits, entry.defaults
    if limits.min_steps > limits.max_steps:
        raise CatalogInvalid(f"{place}: limits.min_steps: is above limits.max_steps")
    if not 0 < limits.min_fps <= limits.max_fps:
        raise CatalogInvalid(f"{place}: limits.min_fps: must be above 0 and not above limits.max_fps")
    inside = {
        "num_inference_steps": limits.min_steps <= defaults.num_inference_steps <= limits.max_steps,
        "fps": limits.min_fps <= defaults.fps <= limits.max_fps,
        "guidance_scale": defaults.guidance_scale <= limits.max_guidance,
    }
    for field in (field for field, is_inside in inside.items() if not is_inside):
        raise CatalogInvalid(f"{place}: defaults.{field}: is outside the model's own limits")
    for field, reason in find_faults(entry):
        raise CatalogInvalid(f"{place}: {field}: {reason}")


def _check_unique(place: Path | str, field: str, names: list[str]) -> None:
    for name in (name for name, count in Counter(names).items() if count > 1):
        raise CatalogInvalid(f"{place}: {field}: {name} stands there twice")
