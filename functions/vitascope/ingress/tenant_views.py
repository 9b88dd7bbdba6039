"""The bodies of requests and answers about tenants."""

from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, Field

from vitascope.contracts.frozen import Frozen
from vitascope.contracts.ids import Token
from vitascope.contracts.jobs import Tier
from vitascope.contracts.keys import JOB_SCOPES, KEY_ID_PATTERN, MAX_LABEL_CHARACTERS, ApiKey, Scope
from vitascope.contracts.tenants import Quotas, Rate, Tenant
from vitascope.runtime.usage import Usage

OVERLAP_S = 86_400
"""A key that is replaced stays valid for a day, if nothing else is said: time to put the new one in its place."""
OVERLAP_MAX_S = 30 * 86_400


class QuotasView(Frozen):
    """How much a tenant may use; null is no limit."""

    gpu_seconds_per_day: float | None = Field(None, ge=0, description="in any 24 hours; live jobs count as estimated")
    live_jobs: int | None = Field(None, ge=0, description="jobs that have not ended")
    queued_jobs: int | None = Field(None, ge=0, description="jobs that wait for a GPU group")


class RateView(Frozen):
    """How often each key may ask, at each replica."""

    per_second: float = Field(gt=0, le=100_000, description="requests in the long run")
    burst: int = Field(ge=1, le=1_000_000, description="requests at once after a rest")


class TenantPatch(Frozen):
    """What of a tenant can be changed."""

    weight: float = Field(1.0, gt=0, le=1000, description="its share when several tenants wait")
    tiers: frozenset[Tier] = Field(frozenset(Tier), description="the tiers that its jobs may have")
    quotas: QuotasView = QuotasView()
    rate: RateView | None = Field(None, description="null is no limit")
    retention_days: float | None = Field(
        None, gt=0, le=36_500, description="of the files of jobs accepted from now on, if shorter than the service's"
    )
    disabled: bool = Field(default=False, description="its keys are refused; what it has stays")


class TenantBody(TenantPatch):
    """A new tenant."""

    name: Token = Field(description="lower-case letters, digits and dashes, at most 40; part of object keys and events")


class KeyBody(Frozen):
    """A new key."""

    label: str = Field("", max_length=MAX_LABEL_CHARACTERS, description="for people")
    scopes: frozenset[Scope] = Field(JOB_SCOPES, min_length=1, description="what it allows")
    expires_at: AwareDatetime | None = Field(None, description="never, if null")


class RotateBody(Frozen):
    """How a key is replaced."""

    overlap_seconds: int = Field(OVERLAP_S, ge=0, le=OVERLAP_MAX_S, description="how long the old one stays valid")


class KeyView(Frozen):
    """What may be shown of a key."""

    object: Literal["key"] = "key"
    id: str = Field(pattern=KEY_ID_PATTERN, description="the characters with which the key begins")
    label: str
    scopes: list[Scope]
    created_at: AwareDatetime
    expires_at: AwareDatetime | None


class FreshKeyView(KeyView):
    """A key just made."""

    key: str = Field(description="the key itself: it is not shown again")


class KeyListView(Frozen):
    """Keys."""

    object: Literal["list"] = "list"
    data: list[KeyView]


class UsageView(Frozen):
    """What a tenant uses, as far as this replica knows."""

    live_jobs: int
    queued_jobs: int
    live_gpu_seconds: float = Field(description="what its live jobs are estimated at, or have used if that is more")
    spent_gpu_seconds: float = Field(description="what jobs used that ended within the last 24 hours")


class _Limits(Frozen):
    name: Token
    created_at: AwareDatetime
    disabled: bool
    weight: float
    tiers: list[Tier]
    quotas: QuotasView
    rate: RateView | None
    retention_days: float | None
    usage: UsageView


class TenantView(_Limits):
    """A tenant."""

    object: Literal["tenant"] = "tenant"
    keys: list[KeyView]


class OwnTenantView(_Limits):
    """The tenant of the caller."""

    object: Literal["tenant"] = "tenant"
    key: str | None = Field(description="the characters with which the caller's key begins; null for the settings' key")
    scopes: list[Scope] = Field(description="what the caller's key allows")


class TenantListView(Frozen):
    """Tenants."""

    object: Literal["list"] = "list"
    data: list[TenantView]


def apply_limits(tenant: Tenant, body: TenantPatch) -> Tenant:
    """The tenant with the limits that the body names, and with its own where it names none. Pure."""
    given = body.model_fields_set
    changes: dict[str, object] = {}
    if "weight" in given:
        changes["weight"] = body.weight
    if "tiers" in given:
        changes["tiers"] = body.tiers
    if "retention_days" in given:
        changes["retention_days"] = body.retention_days
    if "disabled" in given:
        changes["is_disabled"] = body.disabled
    if "rate" in given:
        changes["rate"] = Rate(per_s=body.rate.per_second, burst=body.rate.burst) if body.rate is not None else None
    if "quotas" in given:
        changes["quotas"] = _apply_quotas(tenant.quotas, body.quotas)
    return tenant.model_copy(update=changes)


def _apply_quotas(quotas: Quotas, body: QuotasView) -> Quotas:
    given = body.model_dump(include=body.model_fields_set)
    if "gpu_seconds_per_day" in given:
        given["gpu_s_per_day"] = given.pop("gpu_seconds_per_day")
    return quotas.model_copy(update=given)


def present_key(key: ApiKey) -> KeyView:
    """What may be shown of a key."""
    return KeyView(
        id=key.id, label=key.label, scopes=sorted(key.scopes), created_at=key.created, expires_at=key.expires
    )


def present_tenant(tenant: Tenant, usage: Usage) -> TenantView:
    """What an administrator sees of a tenant."""
    quotas, rate = tenant.quotas, tenant.rate
    return TenantView(
        name=tenant.name,
        created_at=tenant.created,
        disabled=tenant.is_disabled,
        weight=tenant.weight,
        tiers=sorted(tenant.tiers),
        quotas=QuotasView(
            gpu_seconds_per_day=quotas.gpu_s_per_day, live_jobs=quotas.live_jobs, queued_jobs=quotas.queued_jobs
        ),
        rate=RateView(per_second=rate.per_s, burst=rate.burst) if rate is not None else None,
        retention_days=tenant.retention_days,
        usage=UsageView(
            live_jobs=usage.live,
            queued_jobs=usage.queued,
            live_gpu_seconds=usage.live_gpu_s,
            spent_gpu_seconds=usage.spent_gpu_s,
        ),
        keys=[present_key(key) for key in tenant.keys],
    )


def describe_body(model: type[BaseModel]) -> dict[str, Any]:
    """The part of a route's OpenAPI description that says what its body holds; JSON schema has any JSON."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema = _inline(schema, schema.pop("$defs", {}))
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _inline(schema: Any, definitions: dict[str, Any]) -> Any:
    """The schema with each reference replaced by what it refers to: a route's own schemas are not collected."""
    if isinstance(schema, list):
        return [_inline(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]] | {k: v for k, v in schema.items() if k != "$ref"}
    return {name: _inline(part, definitions) for name, part in schema.items()}
