"""`vitascope tenants …`: tenants, their limits and their keys; needs a key with the scope `admin`."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from vitascope.cli.answers import Json
from vitascope.cli.exits import CommandError, Exit
from vitascope.cli.show import err, out, print_json, print_table
from vitascope.cli.target import find_client

NO_LIMIT = "none"
KEY = {"id": str, "label": str, "scopes": [str], "created_at": str}
TENANT = {"name": str, "weight": object, "tiers": [str], "quotas": dict, "usage": dict, "keys": [KEY]}

tenants_app = typer.Typer(help="Make tenants and keys, set limits.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Name = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's name.")]
KeyId = Annotated[str, typer.Argument(metavar="KEY", help="The first 12 characters of the key, vsk_…")]
Weight = Annotated[float | None, typer.Option(help="Its share when several tenants wait.")]
Tiers = Annotated[list[str] | None, typer.Option("--tier", help="A tier that it may use; may be repeated.")]
GpuSeconds = Annotated[str | None, typer.Option(help=f"GPU-seconds in 24 hours, or {NO_LIMIT}.")]
LiveJobs = Annotated[str | None, typer.Option(help=f"Jobs under way at once, or {NO_LIMIT}.")]
QueuedJobs = Annotated[str | None, typer.Option(help=f"Jobs that wait at once, or {NO_LIMIT}.")]
Rate = Annotated[str | None, typer.Option(help=f"Requests a second of each key, or {NO_LIMIT}.")]
RetentionDays = Annotated[str | None, typer.Option(help="Days from a job's end until its files go, or none.")]
Burst = Annotated[int | None, typer.Option(help="Requests at once of each key, with --rate.", min=1)]


@tenants_app.command("list")
def list_tenants(*, as_json: AsJson = False) -> None:
    """List tenants, and what they use."""
    page = find_client().ask("GET", "/v1/tenants", {"data": [TENANT]})
    if as_json:
        print_json(page)
        return
    rows = [
        (tenant["name"], tenant["weight"], len(tenant["keys"]), tenant["usage"].get("live_jobs"),
         tenant["usage"].get("spent_gpu_seconds"))
        for tenant in page["data"]
    ]  # fmt: skip
    print_table(("tenant", "weight", "keys", "live jobs", "GPU-seconds in 24 h"), rows)


@tenants_app.command("show")
def show_tenant(name: Name, *, as_json: AsJson = False) -> None:
    """Show a tenant: its limits, its keys, what it uses."""
    _print_tenant(find_client().ask("GET", _path(name), TENANT), as_json=as_json)


@tenants_app.command("create")
def create_tenant(  # noqa: PLR0913 (an argument is an option of the command line)
    name: Name,
    *,
    weight: Weight = None,
    tier: Tiers = None,
    gpu_seconds: GpuSeconds = None,
    live_jobs: LiveJobs = None,
    queued_jobs: QueuedJobs = None,
    rate: Rate = None,
    burst: Burst = None,
    retention_days: RetentionDays = None,
    as_json: AsJson = False,
) -> None:
    """Add a tenant; `vitascope tenants key` makes its keys."""
    quotas = (gpu_seconds, live_jobs, queued_jobs)
    body = make_limits(weight, tier, quotas=quotas, rate=rate, burst=burst, retention_days=retention_days)
    made = find_client().ask("POST", "/v1/tenants", TENANT, json={"name": name, **body})
    _print_tenant(made, as_json=as_json)


@tenants_app.command("change")
def change_tenant(  # noqa: PLR0913 (an argument is an option of the command line)
    name: Name,
    *,
    weight: Weight = None,
    tier: Tiers = None,
    gpu_seconds: GpuSeconds = None,
    live_jobs: LiveJobs = None,
    queued_jobs: QueuedJobs = None,
    rate: Rate = None,
    burst: Burst = None,
    retention_days: RetentionDays = None,
    disable: Annotated[
        bool | None, typer.Option("--disable/--enable", help="Refuse its keys, or take them again.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change what is named, leave the rest."""
    quotas = (gpu_seconds, live_jobs, queued_jobs)
    body = make_limits(weight, tier, quotas=quotas, rate=rate, burst=burst, retention_days=retention_days)
    body |= {} if disable is None else {"disabled": disable}
    _print_tenant(find_client().ask("PATCH", _path(name), TENANT, json=body), as_json=as_json)


@tenants_app.command("key")
def create_key(
    name: Name,
    *,
    scope: Annotated[list[str] | None, typer.Option(help="jobs:read, jobs:write, webhooks, admin; repeatable.")] = None,
    label: Annotated[str, typer.Option(help="For people.")] = "",
    days: Annotated[float | None, typer.Option(help="How long it is valid; for ever if absent.", min=0)] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key; without --scope it reads and writes jobs. It is shown once."""
    body: Json = {"label": label} | ({"scopes": scope} if scope else {})
    if days is not None:
        body["expires_at"] = (datetime.now(UTC) + timedelta(days=days)).isoformat()
    made = find_client().ask("POST", f"{_path(name)}/keys", {**KEY, "key": str}, json=body)
    _print_key(made, as_json=as_json)


@tenants_app.command("rotate")
def rotate_key(
    name: Name,
    key: KeyId,
    *,
    overlap: Annotated[int, typer.Option(help="Seconds for which the old one stays valid.", min=0)] = 86_400,
    as_json: AsJson = False,
) -> None:
    """Replace a key by a fresh one; both are valid for a while."""
    path = f"{_path(name)}/keys/{check_key_id(key)}/rotate"
    _print_key(find_client().ask("POST", path, {**KEY, "key": str}, json={"overlap_seconds": overlap}), as_json=as_json)


@tenants_app.command("revoke")
def revoke_key(name: Name, key: KeyId, *, as_json: AsJson = False) -> None:
    """End a key at once."""
    find_client().ask("DELETE", f"{_path(name)}/keys/{check_key_id(key)}", None)
    if as_json:
        print_json({"revoked": key})
    else:
        out.print(f"{key} is revoked", highlight=False, markup=False)


def make_limits(
    weight: float | None,
    tiers: list[str] | None,
    *,
    quotas: tuple[str | None, str | None, str | None],
    rate: str | None,
    burst: int | None,
    retention_days: str | None = None,
) -> Json:
    """The fields of a request for the options that were given; `quotas` are GPU-seconds, live and queued jobs.

    Raises:
        CommandError: `USAGE`, an option is neither a number nor `none`, or a burst comes without a rate.
    """
    body: Json = {}
    if weight is not None:
        body["weight"] = weight
    if tiers:
        body["tiers"] = tiers
    names = ("gpu_seconds_per_day", "live_jobs", "queued_jobs")
    given = {name: _read_limit(value, name) for name, value in zip(names, quotas, strict=True) if value is not None}
    if given:
        body["quotas"] = given
    if retention_days is not None:
        body["retention_days"] = _read_limit(retention_days, "retention_days")
    if rate is None and burst is not None:
        raise CommandError(Exit.USAGE, "--burst goes with --rate")
    if rate is not None:
        per_second = _read_limit(rate, "rate")
        default = max(1, round(per_second)) if per_second is not None else 1
        body["rate"] = None if per_second is None else {"per_second": per_second, "burst": burst or default}
    return body


def check_key_id(key: str) -> str:
    """The visible part of a key; whoever gives the whole key is not made to send it in an address.

    Raises:
        CommandError: `USAGE`, it is none.
    """
    if not key.startswith("vsk_") or not key.isascii() or not key.replace("_", "").isalnum():
        raise CommandError(Exit.USAGE, "that is no key", fix="`vitascope tenants show TENANT` lists the keys.")
    return key[:12]


def _read_limit(value: str, name: str) -> float | int | None:
    if value == NO_LIMIT:
        return None
    try:
        return int(value) if value.isdigit() else float(value)
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"{name}: {value} is neither a number nor {NO_LIMIT}") from error


def _path(name: str) -> str:
    if not name.isascii() or not name.replace("-", "").isalnum():
        raise CommandError(Exit.USAGE, "that is no tenant's name", why="it has lower-case letters, digits and dashes")
    return f"/v1/tenants/{name}"


def _print_tenant(tenant: Json, *, as_json: bool) -> None:
    if as_json:
        print_json(tenant)
        return
    rows: list[tuple[str, Any]] = [(name, tenant.get(name)) for name in ("name", "disabled", "weight", "created_at")]
    rows.append(("tiers", ", ".join(tenant["tiers"])))
    for group in ("quotas", "rate", "usage"):
        rows += [(f"{group}.{name}", value) for name, value in (tenant.get(group) or {}).items()]
    rows += [(key["id"], f"{', '.join(key['scopes'])} {key['label']}".strip()) for key in tenant["keys"]]
    print_table(("field", "value"), rows)


def _print_key(key: Json, *, as_json: bool) -> None:
    if as_json:
        print_json(key)
        return
    out.print(key["key"], highlight=False, markup=False, soft_wrap=True)
    err.print("Keep it now: it is not shown again.", style="dim")
