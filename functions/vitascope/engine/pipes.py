"""The pipeline object of one stage of one job: shared weights, and everything that changes of its own."""

from collections.abc import Mapping
from typing import Any

import torch

from vitascope.engine.library import Blocks, Component, ModelMixin, Pipe, SchedulerMixin


def build_pipe(
    blocks: Blocks,
    stage: Blocks,
    components: Mapping[str, Component],
    *,
    configs: Mapping[str, Any] | None = None,
    neighbours: Mapping[str, Component] | None = None,
) -> Pipe:
    """A pipeline that runs `stage`, made as the whole family's pipeline would be.

    Pipeline class, guider defaults and configs are taken from `blocks`, the whole family: a stage alone would pick its
    class from its first block, see other defaults of components with equal names, and miss configs that another stage
    declares. `neighbours` are models of other stages without weights (see `without_weights`): blocks read compression
    ratios and channel counts from them, and would fall back to constants in silence.

    Schedulers are re-created from their config, other objects without weights are made anew, models are shared: a job
    that fails or is cancelled leaves nothing behind for the next one.
    """
    whole = blocks.init_pipeline()
    pipe = type(whole)(blocks=stage)
    own = {spec.name for spec in stage.expected_components}
    made = {name: whole.get_component_spec(name).create() for name in whole.config_component_names if name in own}
    given = {name: _own_copy(component) for name, component in components.items() if name in own}
    pipe.update_components(**(made | given))
    for name, model in (neighbours or {}).items():
        if name not in own:
            # Past the pipeline's registry, so that neither device nor dtype is ever read from it.
            object.__setattr__(pipe, name, model)
    pipe.register_to_config(**{spec.name: spec.default for spec in blocks.expected_configs} | dict(configs or {}))
    return pipe


def without_weights(model: Component) -> Component:
    """The geometry of a model on the meta device."""
    with torch.device("meta"):
        return type(model).from_config(model.config)


def neighbours_of(components: Mapping[str, Component]) -> dict[str, Component]:
    """The models among components, without weights."""
    return {name: without_weights(model) for name, model in components.items() if isinstance(model, ModelMixin)}


def _own_copy(component: Component) -> Component:
    if isinstance(component, SchedulerMixin):
        return type(component).from_config(component.config)
    return component
