"""Stands in for one method of one object for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Sets `owner.name` to `value` on the instance and puts back exactly what was there, even after an error.

    `owner` is any object with a `__dict__`; an attribute that only its class has is uncovered again.
    """
    own = vars(owner)
    had, before = name in own, own.get(name)
    own[name] = value
    try:
        yield
    finally:
        if had:
            own[name] = before
        else:
            del own[name]
