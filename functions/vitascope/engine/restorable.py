"""Which library objects a blob may hold, and how their attributes are set back.

Schedulers and guiders carry a job's state in plain attributes. A blob may restore those, and nothing else: the class is
looked up among modules that are loaded already (nothing is imported because data says so), must be a scheduler, a
guider or a small part of a guider such as a momentum buffer, and schedulers and guiders are only ever restored *into*
the object that this job has made itself from the model folder.
"""

import sys
from typing import Any

import torch

from vitascope.engine.library import BaseGuidance, SchedulerMixin

GUIDERS = "diffusers.guiders."
# The frozen config comes from the model folder; `step` may be replaced on the instance while the loop runs.
NOT_STATE = frozenset({"_internal_dict", "step"})


def is_restorable(value: object) -> bool:
    """Is it a scheduler, a guider or a part of a guider?"""
    if isinstance(value, type):
        return False
    return isinstance(value, (SchedulerMixin, BaseGuidance)) or _is_guider_part(type(value))


def attributes(value: object) -> dict[str, Any]:
    """The attributes of a restorable object that may change during a job."""
    return {name: item for name, item in vars(value).items() if name not in NOT_STATE}


def object_to_restore(module: str, name: str, *, old: object) -> Any:
    """The object to set attributes on: `old` where it is of that class, else a new part of a guider.

    Raises:
        ValueError: the class is not one that may be restored here.
    """
    cls = getattr(sys.modules.get(module), name, None) if module.startswith("diffusers.") else None
    if not isinstance(cls, type) or cls.__module__ != module:
        raise ValueError(f"refused {module}.{name}")
    if issubclass(cls, (SchedulerMixin, BaseGuidance)):
        if type(old) is not cls:
            raise ValueError(f"the job has {type(old).__name__} where the blob has {name}")
        return old
    if not _is_guider_part(cls):
        raise ValueError(f"refused {module}.{name}")
    return old if type(old) is cls else object.__new__(cls)


def set_attribute(value: object, name: str, item: object) -> None:
    """Sets a data attribute; refuses names that would hide a method or reach into the object's machinery."""
    on_class = getattr(type(value), name, None)
    if name in NOT_STATE or name.startswith("__") or callable(on_class) or isinstance(on_class, property):
        raise ValueError(f"refused attribute {name!r} of {type(value).__name__}")
    setattr(value, name, item)


def _is_guider_part(cls: type) -> bool:
    return cls.__module__.startswith(GUIDERS) and not issubclass(cls, torch.nn.Module)
