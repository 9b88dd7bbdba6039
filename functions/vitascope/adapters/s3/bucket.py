"""The bucket and its lifecycle rules: made and brought up to date by one call that may run any number of times.

The rules are only a backstop, for a service whose janitor is gone: each leaves the janitor a day. A rule counts from
when an object was put and knows nothing of jobs, so all that a live job may need, for as long as it waits, has the
longest time of all. Whoever keeps jobs waiting for longer than that must raise `record_days`; a copy that a rule took
from a live job is put again by the janitor, an input cannot be.
"""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog
from minio.commonconfig import ENABLED, Filter
from minio.error import S3Error
from minio.lifecycleconfig import AbortIncompleteMultipartUpload, Expiration, LifecycleConfig, Rule

from vitascope.adapters.s3.client import S3Client
from vitascope.contracts.expiry import Retention
from vitascope.contracts.objects import ObjectClass

BACKSTOP = timedelta(days=1)
"""How much later than the janitor a rule strikes at least."""
ABORT_DAYS = 1
"""How long the parts of an upload that was never finished are kept."""
RULE_PREFIX = "vitascope-"
"""Of the names of our rules; a bucket's other rules are left as they are."""
_TAKEN = frozenset({"BucketAlreadyOwnedByYou", "BucketAlreadyExists"})

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class KeepRule:
    """How many days one class of objects is kept, and the parts of its unfinished uploads; None is for ever."""

    name: str
    prefix: str
    days: int | None
    abort_days: int | None = ABORT_DAYS


def plan_rules(retention: Retention) -> tuple[KeepRule, ...]:
    """One rule a class of objects; rules count whole days.

    What a job needs until it ends, latents and checkpoints included, is kept as long as records are: a pool may be
    away for days, and a rule cannot tell a job that waits from one that is over. Those of ended jobs go long before.
    """
    waiting = retention.files + retention.record
    kept = {ObjectClass.OUTPUTS: retention.files}
    return tuple(
        KeepRule(
            f"{RULE_PREFIX}{kind}", f"{kind}/", math.ceil((kept.get(kind, waiting) + BACKSTOP) / timedelta(days=1))
        )
        for kind in ObjectClass
    )


async def ensure_bucket(client: S3Client, retention: Retention) -> Sequence[str]:
    """Make the bucket and its rules, or bring them up to date.

    Returns:
        What the server did not take, in words; a janitor must do that. Some servers accept a rule and drop a part of
        it, so the rules are read back.

    Raises:
        VitascopeError: `store_unavailable`.
    """
    wanted = plan_rules(retention)

    def call(_: threading.Event) -> tuple[str, ...]:
        _make_bucket(client)
        present = _read_rules(client)
        if not set(wanted) <= set(present):
            try:
                _write_rules(client, wanted)
            except S3Error as error:
                return (f"lifecycle rules are refused: {error.code}",)
            present = _read_rules(client)
        return compute_dropped(wanted, present)

    dropped = await client.run(f"bucket {client.bucket}", call)
    for words in dropped:
        log.warning("store.rule_dropped", bucket=client.bucket, rule=words)
    return dropped


def compute_dropped(wanted: Sequence[KeepRule], present: Sequence[KeepRule]) -> tuple[str, ...]:
    """What of the wanted rules is not there, in words."""
    by_prefix = {rule.prefix: rule for rule in present}
    dropped: list[str] = []
    for rule in wanted:
        kept = by_prefix.get(rule.prefix)
        if kept is None or kept.days != rule.days:
            dropped.append(f"{rule.prefix} expires after {rule.days} days")
        if kept is None or kept.abort_days != rule.abort_days:
            dropped.append(f"{rule.prefix} unfinished uploads end after {rule.abort_days} days")
    return tuple(dropped)


def _make_bucket(client: S3Client) -> None:
    if client.minio.bucket_exists(client.bucket):
        return
    try:
        client.minio.make_bucket(client.bucket)
    except S3Error as error:
        if error.code not in _TAKEN:
            raise


def _read_rules(client: S3Client) -> tuple[KeepRule, ...]:
    return tuple(_from_server(rule) for rule in _server_rules(client) if _is_ours(rule))


def _write_rules(client: S3Client, wanted: Sequence[KeepRule]) -> None:
    foreign = [rule for rule in _server_rules(client) if not _is_ours(rule)]
    ours = [
        Rule(
            ENABLED,
            rule_filter=Filter(prefix=rule.prefix),
            rule_id=rule.name,
            expiration=Expiration(days=rule.days),
            abort_incomplete_multipart_upload=AbortIncompleteMultipartUpload(days_after_initiation=rule.abort_days),
        )
        for rule in wanted
    ]
    client.minio.set_bucket_lifecycle(client.bucket, LifecycleConfig([*foreign, *ours]))


def _server_rules(client: S3Client) -> list[Any]:
    """The bucket's rules. Any: the client's library has no types."""
    config = client.minio.get_bucket_lifecycle(client.bucket)
    return [] if config is None else list(config.rules)


def _is_ours(rule: Any) -> bool:
    return str(rule.rule_id or "").startswith(RULE_PREFIX)


def _from_server(rule: Any) -> KeepRule:
    abort = rule.abort_incomplete_multipart_upload
    return KeepRule(
        name=str(rule.rule_id),
        prefix=str(rule.rule_filter.prefix if rule.rule_filter else ""),
        days=rule.expiration.days if rule.expiration else None,
        abort_days=abort.days_after_initiation if abort else None,
    )
