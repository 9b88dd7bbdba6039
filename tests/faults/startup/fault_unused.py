"""Empty stand-ins for what kserve imports and the pipeline never calls: a stage then starts in half the time.

Most faults end a process, so that its start is what a run of many faults spends its time on.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

UNUSED = frozenset({"pandas", "kubernetes"})


class _Empty(ModuleType):
    """Every name in it is a class without anything."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 (the interface's)
        target: ModuleType | None = None,  # noqa: ARG002 (as above)
    ) -> ModuleSpec | None:
        is_unused = fullname.partition(".")[0] in UNUSED
        return ModuleSpec(fullname, self, is_package=True) if is_unused else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def install() -> None:
    """From now on they are empty."""
    sys.meta_path.insert(0, _Finder())
