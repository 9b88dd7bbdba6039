"""Constants of the product with other values, so that times become short: `FAULTS_SET=module:NAME=seconds,…`."""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from inspect import isfunction
from types import FunctionType, ModuleType

from fault_imports import Change


def read() -> Mapping[str, Sequence[Change]]:
    """The changes that the environment asks for."""
    changes: dict[str, list[Change]] = {}
    for wish in filter(None, os.environ.get("FAULTS_SET", "").split(",")):
        place, _, value = wish.partition("=")
        module, _, name = place.partition(":")
        changes.setdefault(module, []).append(partial(_set, name=name, seconds=float(value)))
    return changes


def _set(module: ModuleType, *, name: str, seconds: float) -> None:
    old = getattr(module, name)  # an AttributeError here: the product has moved it, so the harness must follow
    new = timedelta(seconds=seconds) if isinstance(old, timedelta) else seconds
    setattr(module, name, new)
    for function in _functions_of(module):  # a default is the constant's value at the time of the definition
        if any(default is old for default in function.__defaults__ or ()):
            function.__defaults__ = tuple(new if default is old else default for default in function.__defaults__ or ())


def _functions_of(module: ModuleType) -> Iterator[FunctionType]:
    for value in vars(module).values():
        for inner in vars(value).values() if isinstance(value, type) else (value,):
            if isfunction(inner) and inner.__module__ == module.__name__:
                yield inner
