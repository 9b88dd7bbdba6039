"""The health of webhooks: since when nothing arrives at one, and when that is reason enough to switch it off."""

from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from vitascope.contracts.deliveries import Delivery
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.tenants import Tenant
from vitascope.contracts.webhooks import Subscription, change_subscription
from vitascope.publish.webhooks.metrics import DISABLED
from vitascope.runtime.tenants import TenantBook

FAILING_TRIES = 3
"""A delivery that failed so often has been failing for half a minute: shorter troubles are not written down."""

log = structlog.get_logger(__name__)


class Health:
    """Writes into the tenant's document, and only when something is new. What cannot be written is seen again."""

    def __init__(self, tenants: TenantBook, limit: timedelta) -> None:
        """Takes how long nothing but failures may come from a webhook until it is switched off."""
        self._tenants, self._limit = tenants, limit

    async def note_success(self, tenant: str, subscription: Subscription | None) -> None:
        """Something has arrived."""
        if subscription is not None and subscription.failing_since is not None:
            await self._change(tenant, subscription, failing_since=None)

    async def note_failure(self, failed: Delivery, subscription: Subscription | None, now: datetime) -> None:
        """Something has not."""
        if subscription is None:
            return
        since = subscription.failing_since
        if since is None and failed.tries >= FAILING_TRIES:
            kept = failed.attempts[-failed.tries :]
            await self._change(failed.tenant, subscription, failing_since=kept[0].at)
        elif since is not None and now - since >= self._limit:
            reason = f"Nothing has arrived since {since:%Y-%m-%d %H:%M} UTC."
            await self.disable(failed.tenant, subscription, reason)

    async def disable(self, tenant: str, subscription: Subscription | None, reason: str) -> None:
        """Send nothing more until somebody enables it again."""
        if subscription is not None and subscription.disabled is None:
            await self._change(tenant, subscription, disabled=reason)
            DISABLED.inc()
            log.warning("webhook disabled", tenant=tenant, webhook=subscription.id, reason=reason)

    async def _change(self, tenant: str, seen: Subscription, **changes: object) -> None:
        try:
            await self._tenants.change(tenant, _change_if_unchanged(seen, changes))
        except VitascopeError as error:
            log.warning("health of a webhook not noted", tenant=tenant, webhook=seen.id, error=str(error))


def _change_if_unchanged(seen: Subscription, changes: dict[str, object]) -> Callable[[Tenant], Tenant]:
    """A change that is dropped if somebody has given the webhook another address, or enabled it, meanwhile."""

    def change(tenant: Tenant) -> Tenant:
        if seen not in tenant.webhooks.subscriptions:
            return tenant
        return tenant.model_copy(update={"webhooks": change_subscription(tenant.webhooks, seen.id, **changes)})

    return change
