"""`/v1/webhooks/{webhook}/deliveries`: what was sent and what came of it; and to send it again."""

import asyncio
import re
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import structlog
from fastapi import APIRouter, Query, Request
from pydantic import Field

from vitascope.contracts.deliveries import (
    DELIVERY_PATTERN,
    Delivery,
    DeliveryPlace,
    DeliveryState,
    make_delivery,
    replay,
)
from vitascope.contracts.events import TYPE_PREFIX, CloudEvent
from vitascope.contracts.frozen import Frozen
from vitascope.contracts.webhooks import CALLBACK, TEST_EVENT
from vitascope.ingress.body import read_model
from vitascope.ingress.caller import Caller, GivenCaller
from vitascope.ingress.door import Door, GivenDoor
from vitascope.ingress.errors import raise_not_found
from vitascope.ingress.openapi import describe_errors
from vitascope.ingress.tenant_views import describe_body
from vitascope.ingress.webhook_views import (
    MAX_PAGE,
    DeliveryListView,
    DeliveryView,
    ReplayBody,
    ReplayView,
    present_delivery,
)
from vitascope.ingress.webhooks import load_webhook

READ_AT_ONCE = 16
"""Rows of the log that are read side by side."""
MAX_LOOKED_AT = 1000
"""Rows that one request reads in search of those that pass its filter."""
LIFE = timedelta(days=3)
"""How long a replay or a test is tried."""

router = APIRouter()
log = structlog.get_logger(__name__)


class DeliveryQuery(Frozen):
    """Which deliveries, and where the page begins."""

    status: list[DeliveryState] = Field([], description="only these; may be repeated")
    limit: int = Field(20, ge=1, le=MAX_PAGE)
    after: str | None = Field(None, pattern=DELIVERY_PATTERN, description="the `last_id` of the page before")


@router.get(
    "/v1/webhooks/{webhook}/deliveries",
    operation_id="listDeliveries",
    summary="The log of a webhook",
    responses=describe_errors(400, 403, 404),
)
async def list_deliveries(
    webhook: str, door: GivenDoor, caller: GivenCaller, query: Annotated[DeliveryQuery, Query()]
) -> DeliveryListView:
    """What is pending, and what has ended in the last seven days; `callback` stands for the callbacks of single jobs.

    With filters that few pass, a page may be short, or empty, although `has_more`: go on after its `last_id`.
    """
    await _check_target(door, caller, webhook)
    ids = await door.deps.deliveries.list_ids(caller.tenant, webhook)
    rest = [row for row in ids if query.after is None or row < query.after]
    found: list[Delivery] = []
    seen = 0
    while seen < min(len(rest), MAX_LOOKED_AT) and len(found) < query.limit:
        batch = rest[seen : seen + min(READ_AT_ONCE, query.limit - len(found))]
        rows = await _load(door, caller, webhook, batch)
        found += [row for row in rows if not query.status or row.state in query.status]
        seen += len(batch)
    return DeliveryListView(
        data=[present_delivery(row) for row in found],
        first_id=found[0].id if found else None,
        last_id=rest[seen - 1] if seen else None,
        has_more=seen < len(rest),
    )


@router.get(
    "/v1/webhooks/{webhook}/deliveries/{delivery}",
    operation_id="getDelivery",
    summary="A delivery",
    responses=describe_errors(403, 404),
)
async def get_delivery(webhook: str, delivery: str, door: GivenDoor, caller: GivenCaller) -> DeliveryView:
    """A delivery and its tries."""
    return present_delivery(await _load_one(door, caller, webhook, delivery))


@router.post(
    "/v1/webhooks/{webhook}/deliveries/{delivery}/replay",
    status_code=202,
    operation_id="replayDelivery",
    summary="Deliver again",
    responses=describe_errors(403, 404),
)
async def replay_delivery(webhook: str, delivery: str, door: GivenDoor, caller: GivenCaller) -> DeliveryView:
    """Send the same message again, with its old `webhook-id`. One that is pending already is answered as it is."""
    row = await _load_one(door, caller, webhook, delivery)
    if not row.is_pending:
        await door.deps.deliveries.reopen(replay(row, door.now, LIFE))
        log.info("delivery replayed", tenant=caller.tenant, webhook=webhook, delivery=delivery)
    return present_delivery(await _load_one(door, caller, webhook, delivery))


@router.post(
    "/v1/webhooks/{webhook}/replay",
    status_code=202,
    operation_id="replayDeliveries",
    summary="Deliver again what did not arrive",
    openapi_extra=describe_body(ReplayBody),
    responses=describe_errors(400, 403, 404, 413, 415),
)
async def replay_deliveries(webhook: str, request: Request, door: GivenDoor, caller: GivenCaller) -> ReplayView:
    """Send again what is dead, or in the states that the body names, of all events since a moment."""
    body = await read_model(request, door.deps.settings.max_body_bytes, ReplayBody)
    await _check_target(door, caller, webhook)
    wanted = frozenset(body.status) - {DeliveryState.PENDING}
    ids, replayed, place = await door.deps.deliveries.list_ids(caller.tenant, webhook), 0, 0
    while place < len(ids) and replayed < MAX_LOOKED_AT:
        batch = ids[place : place + READ_AT_ONCE]
        rows = await _load(door, caller, webhook, batch)
        again = [replay(row, door.now, LIFE) for row in rows if row.state in wanted and row.created >= body.since]
        replayed += sum(await asyncio.gather(*(door.deps.deliveries.reopen(row) for row in again)))
        place += len(batch)
    log.info("deliveries replayed", tenant=caller.tenant, webhook=webhook, count=replayed)
    return ReplayView(replayed=replayed, has_more=place < len(ids))


@router.post(
    "/v1/webhooks/{webhook}/test",
    status_code=202,
    operation_id="testWebhook",
    summary="Send a test event",
    responses=describe_errors(403, 404),
)
async def send_test(webhook: str, door: GivenDoor, caller: GivenCaller) -> DeliveryView:
    """Send an event `webhook.test`, whatever the webhook's filter says; the delivery shows what comes of it."""
    await load_webhook(door, caller, webhook)
    event = CloudEvent(
        id=f"test:{secrets.token_hex(12)}",
        source=f"/vitascope/tenants/{caller.tenant}/webhooks",
        type=f"{TYPE_PREFIX}.{TEST_EVENT}.v1",
        time=door.now,
        data={"webhook": webhook},
    )
    delivery = make_delivery(event, webhook, caller.tenant, url=None, now=door.now, life=LIFE)
    await door.deps.deliveries.add(delivery)
    return present_delivery(delivery)


async def _check_target(door: Door, caller: Caller, webhook: str) -> None:
    if webhook != CALLBACK:
        await load_webhook(door, caller, webhook)


async def _load_one(door: Door, caller: Caller, webhook: str, delivery: str) -> Delivery:
    await _check_target(door, caller, webhook)
    is_id = re.fullmatch(DELIVERY_PATTERN, delivery) is not None and not delivery.endswith("\n")
    rows = await _load(door, caller, webhook, [delivery]) if is_id else []
    if not rows:
        raise_not_found("There is no such delivery.")
    return rows[0]


async def _load(door: Door, caller: Caller, webhook: str, ids: Sequence[str]) -> list[Delivery]:
    """Those of the ids that are still there, in their order."""
    places = [DeliveryPlace(caller.tenant, webhook, row) for row in ids]
    found = await asyncio.gather(*(door.deps.deliveries.get(place) for place in places))
    return [stamped.delivery for stamped in found if stamped is not None]
