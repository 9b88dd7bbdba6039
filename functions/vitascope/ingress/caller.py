"""Who asks: the tenant that an API key stands for, and what the key allows."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends

DEFAULT_TENANT = "default"


@dataclass(frozen=True)
class Caller:
    """The one who sent a request."""

    tenant: str


async def _find_caller() -> Caller:
    return Caller(DEFAULT_TENANT)


GivenCaller = Annotated[Caller, Depends(_find_caller)]
"""The parameter by which a handler learns who asks."""
