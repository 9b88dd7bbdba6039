"""Probes and metrics: is this process alive, would a job run, what has it done."""

import asyncio

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.frozen import Frozen
from vitascope.contracts.objects import PROBE_KEY
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.errors import RETRY_AFTER_S, DoorError, ErrorBody, ErrorView, make_error_body
from vitascope.ingress.metrics import METRICS_TYPE

STORE_TIMEOUT_S = 3.0
"""A store that takes longer to say that an object is not there counts as away."""

router = APIRouter()


class HealthView(Frozen):
    """Whether the process is alive."""

    status: str


class ReadinessView(Frozen):
    """Whether a job would run now; what is missing if not."""

    ready: bool
    checks: dict[str, bool] = Field(description="one entry for each part that a job needs")


class UnreadyView(ReadinessView):
    """The same beside the error."""

    error: ErrorBody


@router.get("/healthz", operation_id="getHealth", summary="Liveness", responses={503: {"model": ErrorView}})
async def get_health(door: GivenDoor) -> HealthView:
    """200 while the process works; it says nothing of the others, since a restart of this one would not mend them."""
    if not door.followers.are_alive():
        raise DoorError(FailureCode.INTERNAL_ERROR, "A part of this process has stopped.", status=503)
    return HealthView(status="ok")


@router.get(
    "/readyz",
    operation_id="getReadiness",
    summary="Readiness",
    response_model=ReadinessView,
    responses={503: {"model": UnreadyView, "description": "What is missing"}},
)
async def get_readiness(door: GivenDoor) -> Response:
    """200 once a job would run: the servers answer, and some pool has every stage."""
    checks = await compute_checks(door)
    view = ReadinessView(ready=all(checks.values()), checks=checks)
    if view.ready:
        return JSONResponse(view.model_dump(mode="json"))
    missing = ", ".join(name for name, is_there in checks.items() if not is_there)
    error = DoorError(FailureCode.SERVICE_UNAVAILABLE, f"Missing: {missing}.")
    body = make_error_body(error.code, str(error), status=error.status)
    unready = UnreadyView(ready=False, checks=checks, error=body)
    return JSONResponse(
        unready.model_dump(mode="json"),
        status_code=error.status,
        headers={"retry-after": str(RETRY_AFTER_S[error.code])},
    )


@router.get("/metrics", operation_id="getMetrics", summary="Metrics", response_class=Response)
async def get_metrics(door: GivenDoor) -> Response:
    """Metrics in Prometheus' text format."""
    return Response(door.metrics.render(), media_type=METRICS_TYPE)


async def compute_checks(door: Door) -> dict[str, bool]:
    """What a job needs, and whether it is there; of several pools, the one that has most counts."""
    pools = dict.fromkeys(entry.pool for entry in door.deps.catalog.entries)
    by_pool = [_check_pool(door, pool) for pool in pools]
    return {
        "bus": door.deps.bus.is_connected(),
        "store": await _has_store(door),
        "jobs": await door.jobs.wait_synced(0),
        **max(by_pool, key=lambda checks: sum(checks.values())),
    }


def _check_pool(door: Door, pool: str) -> dict[str, bool]:
    names = {entry.name for entry in door.deps.catalog.of_pool(pool)}
    groups = door.groups.list_working(Stage.DENOISE, pool)
    return {
        "denoise": any(names & set(group.models) for group in groups),
        "decode": bool(door.groups.list_working(Stage.DECODE, pool)),
        "encode": bool(door.groups.list_working(Stage.ENCODE, pool)),
    }


async def _has_store(door: Door) -> bool:
    try:
        async with asyncio.timeout(STORE_TIMEOUT_S):
            await door.deps.store.size(PROBE_KEY)
    except (VitascopeError, TimeoutError):
        return False
    return True
