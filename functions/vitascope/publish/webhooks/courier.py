"""One try of one delivery: look up where it goes, sign, send, and write down what came of it.

What is remembered of an answer is its status. Tries are made at least once: if this process dies between the answer
and the note of it, the same message goes out again, with the same `webhook-id`.
"""

import asyncio
import random
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import structlog

from vitascope.contracts import deliveries
from vitascope.contracts.deliveries import Attempt, Delivery, DeliveryPlace
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.tenants import Tenant
from vitascope.contracts.webhooks import (
    CALLBACK,
    SECRET_BYTES,
    SigningSecret,
    Subscription,
    find_subscription,
    list_valid_secrets,
    make_secret,
)
from vitascope.publish.webhooks.health import Health
from vitascope.publish.webhooks.metrics import ENDED, TRIES, TRY_S
from vitascope.publish.webhooks.signature import make_headers
from vitascope.runtime.deliveries import DeliveryBook, StampedDelivery
from vitascope.runtime.ports import Clock, Conflict
from vitascope.runtime.tenants import TenantBook

TIMEOUT_S = 10.0
"""For all of a try: a receiver takes the message and does its work afterwards."""
SAVE_FIRST_S, SAVE_MAX_S = 0.5, 30.0
"""Waits between tries to write an outcome down double up to this; they end with the tenure of this process."""
GONE = 410
"""A receiver that answers so wants nothing more, says Standard Webhooks."""

log = structlog.get_logger(__name__)


class Sender(Protocol):
    """What sends to addresses of strangers: `outbound.Outbound`."""

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> int:
        """POST, and give the status of the answer, whose body is not read; a redirect is not followed.

        Raises:
            VitascopeError: `address_not_allowed`; `fetch_failed`.
        """
        ...


@dataclass(frozen=True)
class Address:
    """Where a delivery goes now, and what signs it."""

    url: str
    secrets: tuple[str, ...]
    subscription: Subscription | None


class Unwanted(Exception):
    """There is nobody to deliver to any more; the message says why, in words for the log."""


class Courier:
    """Carries deliveries, any number at once."""

    def __init__(
        self,
        book: DeliveryBook,
        tenants: TenantBook,
        sender: Sender,
        health: Health,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._book, self._tenants, self._sender, self._health = book, tenants, sender, health
        self._clock, self._rng = clock, rng

    async def carry(self, place: DeliveryPlace, is_overtaken: Callable[[], bool]) -> StampedDelivery | None:
        """Try a delivery and save the outcome; None if it is pending no more.

        Raises:
            VitascopeError: it cannot be looked up at the moment; nothing was tried.
        """
        current = await self._book.get(place)
        if current is None or not current.delivery.is_pending:
            return None
        after = await self._try(current.delivery)
        if after.is_pending and is_overtaken():
            after = deliveries.supersede(after, self._clock.now())
        return await self._save(current, after)

    async def drop_overtaken(self, place: DeliveryPlace) -> None:
        """End a delivery that had failed and whose job has moved on."""
        current = await self._book.get(place)
        if current is not None and current.delivery.is_pending:
            await self._save(current, deliveries.supersede(current.delivery, self._clock.now()))

    async def _try(self, delivery: Delivery) -> Delivery:
        try:
            address = await self._find_address(delivery)
        except Unwanted as unwanted:
            return deliveries.end_dead(delivery, str(unwanted), self._clock.now())
        attempt = await self._send(delivery, address)
        now, subscription = self._clock.now(), address.subscription
        if attempt.status_code is not None and 200 <= attempt.status_code < 300:  # noqa: PLR2004 (2xx)
            await self._health.note_success(delivery.tenant, subscription)
            return deliveries.note_success(delivery, attempt, now)
        if attempt.status_code == GONE:
            await self._health.disable(delivery.tenant, subscription, "The receiver answered 410 Gone.")
            return deliveries.note_last(delivery, attempt, "The receiver answered 410 Gone.", now)
        failed = deliveries.note_failure(delivery, attempt, now, self._rng.random())
        await self._health.note_failure(failed, subscription, now)
        return failed

    async def _find_address(self, delivery: Delivery) -> Address:
        """As the tenant's document has it now.

        Raises:
            Unwanted: there is none.
            VitascopeError: the document cannot be read.
        """
        tenant, now = await self._tenants.get(delivery.tenant), self._clock.now()
        if tenant is None or tenant.is_disabled:
            raise Unwanted("The tenant is disabled.")
        if delivery.target == CALLBACK:
            assert delivery.url is not None, "a callback has its address with it"
            return Address(delivery.url, await self._find_callback_secrets(tenant, now), None)
        subscription = find_subscription(tenant.webhooks, delivery.target)
        if subscription is None:
            raise Unwanted("The webhook was deleted.")
        if subscription.disabled is not None:
            raise Unwanted("The webhook is disabled.")
        return Address(subscription.url, list_valid_secrets(subscription.secrets, now), subscription)

    async def _find_callback_secrets(self, tenant: Tenant, now: datetime) -> tuple[str, ...]:
        """The tenant's own, made when first needed."""
        rows = tenant.webhooks.callback_secrets
        if not rows:
            fresh = make_secret(secrets.token_bytes(SECRET_BYTES), now)
            changed = await self._tenants.change(tenant.name, lambda held: _with_callback_secret(held, fresh))
            rows = changed.webhooks.callback_secrets
        return list_valid_secrets(rows, now)

    async def _send(self, delivery: Delivery, address: Address) -> Attempt:
        body, loop = delivery.body.encode(), asyncio.get_running_loop()
        at, began_s = self._clock.now(), loop.time()
        headers = make_headers(address.secrets, delivery.event_id, body, at)
        status: int | None = None
        error: str | None = None
        try:
            status = await self._sender.post(address.url, body, headers, TIMEOUT_S)
        except VitascopeError as failure:
            error = failure.code.value
        except (OSError, ValueError) as failure:  # whatever a hostile receiver finds must not end the process
            error = FailureCode.INTERNAL_ERROR.value
            log.exception("sender failed", **_describe(delivery), kind=type(failure).__name__)
        took_s = loop.time() - began_s
        outcome = error or f"{(status or 0) // 100}xx"
        TRIES.labels(outcome=outcome).inc()
        TRY_S.observe(took_s)
        log.info("webhook tried", **_describe(delivery), outcome=outcome, status=status, s=round(took_s, 3))
        return Attempt(at=at, ms=int(took_s * 1000), status_code=status, error=error)

    async def _save(self, current: StampedDelivery, after: Delivery) -> StampedDelivery | None:
        """Write the outcome down, however long it takes: a message that arrived is not to be sent again."""
        wait_s = SAVE_FIRST_S
        while True:
            try:
                saved = await self._book.replace(current, after)
            except Conflict:  # somebody else has changed it: what he wrote holds
                return await self._find_pending(after.place)
            except VitascopeError as error:
                log.warning("outcome not saved yet", **_describe(after), error=str(error))
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, SAVE_MAX_S)
            else:
                if after.is_pending:
                    return saved
                ENDED.labels(state=after.state.value).inc()
                return None

    async def _find_pending(self, place: DeliveryPlace) -> StampedDelivery | None:
        newest = await self._book.get(place)
        return newest if newest is not None and newest.delivery.is_pending else None


def _with_callback_secret(tenant: Tenant, fresh: SigningSecret) -> Tenant:
    """The tenant with a secret for callbacks: the one that it has, else the fresh one."""
    if tenant.webhooks.callback_secrets:
        return tenant
    webhooks = tenant.webhooks.model_copy(update={"callback_secrets": (fresh,)})
    return tenant.model_copy(update={"webhooks": webhooks})


def _describe(delivery: Delivery) -> dict[str, object]:
    return {"tenant": delivery.tenant, "target": delivery.target, "delivery": delivery.id, "job": delivery.job}
