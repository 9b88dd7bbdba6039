"""The two base models of every contract."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value made by this version of the software: immutable, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Stored(Frozen):
    """A value that outlives a release: a field that a newer release added is kept when an older one writes it back."""

    model_config = ConfigDict(frozen=True, extra="allow")
