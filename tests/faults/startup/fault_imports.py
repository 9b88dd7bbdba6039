"""Change a module right after it was imported for the first time, before anybody takes a name from it."""

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Change = Callable[[ModuleType], None]


def change_after_import(*changes: Mapping[str, Sequence[Change]]) -> None:
    """Have each change applied to its module."""
    wanted: dict[str, list[Change]] = {}
    for some in changes:
        for name, these in some.items():
            wanted.setdefault(name, []).extend(these)
    sys.meta_path.insert(0, _Finder(wanted))


class _Finder(MetaPathFinder):
    def __init__(self, wanted: dict[str, list[Change]]) -> None:
        self._wanted = wanted

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        changes = self._wanted.pop(fullname, None)
        spec = importlib.util.find_spec(fullname) if changes else None
        if spec is None or spec.loader is None or changes is None:
            return None
        spec.loader = _Loader(spec.loader, changes)
        return spec


class _Loader(Loader):
    def __init__(self, real: Loader, changes: list[Change]) -> None:
        self._real, self._changes = real, changes

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)
        for change in self._changes:
            change(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)
