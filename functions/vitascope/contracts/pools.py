"""GPU groups: the row that each keeps alive in the registry."""

from enum import StrEnum

from pydantic import AwareDatetime, Field

from vitascope.contracts.flow import Stage
from vitascope.contracts.frozen import Stored
from vitascope.contracts.ids import JobId, Token

HEARTBEAT_S = 3.0
"""How often a group renews its row."""
LEASE_S = 15.0
"""A group whose row is older is lost, and its job goes back to the queue: five missed heartbeats."""


class GroupState(StrEnum):
    """What a group can be asked to do."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    DRAINING = "draining"


class GroupRow(Stored):
    """One denoise group, as it says itself."""

    pool: Token
    group: Token
    size: int = Field(1, ge=1, description="ranks, one GPU each")
    models: tuple[str, ...]
    state: GroupState
    job: JobId | None = None
    attempt: int | None = None
    finishing: tuple[JobId, ...] = Field((), description="jobs that no longer need the GPUs: their latents go out")
    step_s: dict[str, float] = Field(default_factory=dict, description="seconds a step, newest average, by bucket")
    holder: str = Field(description="host and process that keeps the row; another holder means a restart")
    seen: AwareDatetime


def presence_pool(stage: Stage, pool: str) -> str:
    """The registry's name for the decode or encode processes of a pool, so that readiness can see that one is there."""
    return f"{stage}-{pool}"
