"""The tenant's document: what a tenant may use, its keys and its webhook subscriptions. The changes here are pure."""

from datetime import datetime

from pydantic import AwareDatetime, Field

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.frozen import Stored
from vitascope.contracts.ids import Token
from vitascope.contracts.jobs import Tier
from vitascope.contracts.keys import ApiKey
from vitascope.contracts.webhooks import TenantWebhooks

DEFAULT_TENANT = "default"
"""The tenant of the key in the settings, and of everybody when there is none. It needs no document to exist."""
TENANT_MAX_BYTES = 64 * 1024
"""Of a document; it holds no more than a bounded number of small rows."""
MAX_KEYS = 64
"""Of one tenant, those that have expired not counted."""


class Quotas(Stored):
    """How much a tenant may use; None is no limit."""

    gpu_s_per_day: float | None = Field(
        None, ge=0, description="GPU-seconds in any 24 hours, estimates of live jobs too"
    )
    live_jobs: int | None = Field(None, ge=0, description="jobs that have not ended, those that wait among them")
    queued_jobs: int | None = Field(None, ge=0, description="jobs that wait for a GPU group")


class Rate(Stored):
    """How often one key may ask: a token bucket, at each replica of the door."""

    per_s: float = Field(gt=0, description="requests a second in the long run")
    burst: int = Field(ge=1, description="requests at once after a rest")


class Tenant(Stored):
    """The document. One row of every list is small and bounded, so that the whole stays under `TENANT_MAX_BYTES`."""

    version: int = 1
    name: Token
    created: AwareDatetime
    is_disabled: bool = Field(False, description="its keys are refused; what it has stays")
    weight: float = Field(1.0, gt=0, description="its share when several tenants wait")
    tiers: frozenset[Tier] = frozenset(Tier)
    quotas: Quotas = Quotas()
    rate: Rate | None = Field(None, description="of each of its keys; None is no limit")
    retention_days: float | None = Field(None, gt=0, description="of the files of jobs accepted from then on")
    keys: tuple[ApiKey, ...] = ()
    webhooks: TenantWebhooks = TenantWebhooks()

    def to_bytes(self) -> bytes:
        """The form that is stored: JSON, UTF-8.

        Raises:
            VitascopeError: `invalid_request`, it would be larger than `TENANT_MAX_BYTES`.
        """
        stored = self.model_dump_json(exclude_none=True).encode()
        if len(stored) > TENANT_MAX_BYTES:
            raise VitascopeError(FailureCode.INVALID_REQUEST, "The tenant has too many keys and subscriptions.")
        return stored

    @classmethod
    def from_bytes(cls, stored: bytes) -> "Tenant":
        """The document that `to_bytes` stored.

        Raises:
            pydantic.ValidationError: it is not one.
        """
        return cls.model_validate_json(stored)


def add_key(tenant: Tenant, key: ApiKey) -> Tenant:
    """The tenant with one more key; those that had expired by then are gone.

    Raises:
        VitascopeError: `invalid_request`, it has `MAX_KEYS`.
    """
    kept = tuple(known for known in tenant.keys if known.is_valid(key.created))
    if len(kept) >= MAX_KEYS:
        raise VitascopeError(FailureCode.INVALID_REQUEST, f"A tenant has at most {MAX_KEYS} keys; revoke one.")
    return tenant.model_copy(update={"keys": (*kept, key)})


def find_key(tenant: Tenant, key_id: str) -> ApiKey:
    """The key with that visible part.

    Raises:
        VitascopeError: `not_found`.
    """
    for key in tenant.keys:
        if key.id == key_id:
            return key
    raise VitascopeError(FailureCode.NOT_FOUND, "The tenant has no such key.")


def rotate_key(tenant: Tenant, key_id: str, fresh: ApiKey, *, until: datetime) -> Tenant:
    """The tenant with a fresh key in place of an old one, which stays valid until then, or its own earlier end.

    Raises:
        VitascopeError: `not_found`; or as `add_key`.
    """
    old = find_key(tenant, key_id)
    end = until if old.expires is None else min(until, old.expires)
    keys = tuple(key.model_copy(update={"expires": end}) if key is old else key for key in tenant.keys)
    return add_key(tenant.model_copy(update={"keys": keys}), fresh)


def revoke_key(tenant: Tenant, key_id: str) -> Tenant:
    """The tenant without that key.

    Raises:
        VitascopeError: `not_found`.
    """
    old = find_key(tenant, key_id)
    return tenant.model_copy(update={"keys": tuple(key for key in tenant.keys if key is not old)})
