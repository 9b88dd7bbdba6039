"""Loads what one stage needs from a model folder, and nothing else. Strict: what is wrong is said before any job."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import torch

from vitascope.engine.errors import ModelFolderError, memory_errors_translated
from vitascope.engine.families import Family, find_family
from vitascope.engine.fingerprints import Fingerprint, compute_fingerprint
from vitascope.engine.folder import check_component, check_libraries, read_index
from vitascope.engine.library import Blocks, Component, ModelMixin, Pipe, diffusers
from vitascope.engine.stages import create_blocks, split

Dtypes: TypeAlias = torch.dtype | Mapping[str, torch.dtype]
DEFAULT = "default"
# Every family has these inputs or makes them itself; which others are present decides what a task needs.
ALWAYS_PRESENT = {"prompt": True, "height": True, "width": True, "num_frames": True}


@dataclass(frozen=True)
class LoadedStages:
    """Some stages of a model in memory.

    Attributes:
        family: the table row.
        tasks: what the folder offers, of the family's tasks.
        components: the stages' own, models on the device.
        neighbours: models of other stages, without weights.
        configs: the pipeline's settings from the index.
        device: where models are.
        fingerprint: of the folder as loaded here.
    """

    family: Family
    tasks: tuple[str, ...]
    components: Mapping[str, Component]
    neighbours: Mapping[str, Component]
    configs: Mapping[str, Any]
    device: torch.device
    fingerprint: Fingerprint
    blocks: Blocks = field(repr=False)


def load_stages(
    folder: Path,
    stages: Iterable[str],
    *,
    dtype: Dtypes,
    device: torch.device,
    configs: Mapping[str, Any] | None = None,
) -> LoadedStages:
    """Loads the components of some stages for every task that the folder offers.

    Args:
        folder: a model in diffusers layout, on this machine; nothing is ever fetched.
        stages: of "encode", "denoise", "decode".
        dtype: of the weights; a mapping gives it by component, with "default" for the others.
        device: where models go.
        configs: replace settings of the index, by name.

    Raises:
        UnknownFamilyError: no table row for this folder.
        ModelFolderError: a component is missing, damaged, of untrusted code or of another shape than its config says.
        DeviceMemoryError: the weights do not fit.
    """
    index = read_index(folder)
    family = find_family(index)
    check_libraries(index, diffusers.pipelines)
    blocks = create_blocks(family.blocks)
    whole = _whole_pipeline(blocks, folder)
    dtypes = dtype if isinstance(dtype, Mapping) else {DEFAULT: dtype}
    needed = _components_by_task(family, blocks, tuple(stages))
    tasks = _offered(needed, whole, folder)
    own = set().union(*(needed[task] for task in tasks))
    components: dict[str, Component] = {}
    neighbours: dict[str, Component] = {}
    for name in whole.pretrained_component_names:
        spec = whole.get_component_spec(name)
        if name in own:
            components[name] = _load(
                folder, name, spec.type_hint, dtype=dtypes.get(name, dtypes[DEFAULT]), device=device
            )
        elif _is_model(spec.type_hint) and issubclass(spec.type_hint, ModelMixin) and _is_in_index(spec):
            neighbours[name] = _load_geometry(folder, name, spec.type_hint)
    settings = {spec.name: whole.config[spec.name] for spec in blocks.expected_configs}
    return LoadedStages(
        family=family,
        tasks=tasks,
        components=components,
        neighbours=neighbours,
        configs=settings | dict(configs or {}),
        device=device,
        fingerprint=compute_fingerprint(folder, dtypes, device),
        blocks=blocks,
    )


def _whole_pipeline(blocks: Blocks, folder: Path) -> Pipe:
    # By our own table: the library's lookup from an index knows only some of the families.
    try:
        return blocks.init_pipeline(str(folder))
    except (AttributeError, ImportError, OSError, ValueError) as error:
        raise ModelFolderError(f"the model index of {folder} names a class that is not there: {error}") from error


def _components_by_task(family: Family, blocks: Blocks, stages: tuple[str, ...]) -> dict[str, set[str]]:
    needed: dict[str, set[str]] = {}
    for task, triggers in family.tasks.items():
        parts = split(blocks, ALWAYS_PRESENT | dict.fromkeys(triggers, True))
        needed[task] = {
            spec.name
            for stage in stages
            if stage in parts
            for spec in parts[stage].expected_components
            if spec.default_creation_method == "from_pretrained"
        }
    return needed


def _offered(needed: Mapping[str, set[str]], whole: Pipe, folder: Path) -> tuple[str, ...]:
    """The tasks whose components the index has; one that it has not at all is an error."""
    lacking = {
        task: sorted(name for name in names if not _is_in_index(whole.get_component_spec(name)))
        for task, names in needed.items()
    }
    offered = tuple(task for task, names in lacking.items() if not names)
    if not offered:
        task, names = next(iter(lacking.items()))
        raise ModelFolderError(
            f"component {', '.join(names)} is not in the model index of {folder}: it is needed for {task}, and the "
            "folder offers no other task: use a complete model"
        )
    return offered


def _is_in_index(spec: Any) -> bool:
    if spec.default_creation_method != "from_pretrained":
        return True
    return spec.type_hint is not None and spec.pretrained_model_name_or_path is not None


def _is_model(cls: object) -> bool:
    return isinstance(cls, type) and issubclass(cls, torch.nn.Module)


def _load(folder: Path, name: str, cls: Any, *, dtype: torch.dtype, device: torch.device) -> Component:
    has_weights = _is_model(cls)
    check_component(folder, name, has_weights=has_weights)
    options: dict[str, Any] = {"subfolder": name, "local_files_only": True}
    if has_weights:
        options |= {"dtype": dtype, "use_safetensors": True, "output_loading_info": True}
    try:
        loaded = cls.from_pretrained(str(folder), **options)
    except Exception as error:  # whatever the two libraries raise on a bad folder; all of it means the same here
        raise ModelFolderError(f"component {name}: {folder / name} cannot be loaded ({error})") from error
    if not has_weights:
        return loaded
    model, report = loaded
    _check_complete(folder, name, model, report)
    with memory_errors_translated():
        return model.to(device).eval()


def _check_complete(folder: Path, name: str, model: Component, report: Mapping[str, Any]) -> None:
    """The libraries leave missing weights empty, or fill them with random numbers, and go on; here it is an error."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    empty = {weight for weight, tensor in tensors if tensor.is_meta}
    missing = sorted(empty | set(report.get("missing_keys", ())))
    if missing:
        raise ModelFolderError(
            f"component {name}: the files in {folder / name} lack {len(missing)} weights, first {missing[0]}: "
            "copy the folder again"
        )


def _load_geometry(folder: Path, name: str, cls: Any) -> Component:
    check_component(folder, name, has_weights=False)
    try:
        with torch.device("meta"):
            return cls.from_config(cls.load_config(str(folder), subfolder=name, local_files_only=True))
    except (OSError, TypeError, ValueError) as error:
        raise ModelFolderError(f"component {name}: the config in {folder / name} cannot be used ({error})") from error
