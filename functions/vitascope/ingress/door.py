"""What the handlers share: the ports they were given, and the read models that follow them."""

import random
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Protocol

from fastapi import Depends, FastAPI, Request

from vitascope.catalog import Catalog
from vitascope.contracts.expiry import Retention
from vitascope.contracts.jobs import ObjectRef
from vitascope.ingress.addresses import AddressCheck
from vitascope.ingress.auth import Authenticator
from vitascope.ingress.followers import Followers
from vitascope.ingress.groups import GroupIndex
from vitascope.ingress.limits import Limits
from vitascope.ingress.metrics import IngressMetrics
from vitascope.ingress.progress import ProgressIndex
from vitascope.ingress.references import ReferenceReader
from vitascope.ingress.rooms import INLINE_SHARE, Room
from vitascope.ingress.streams import OpenStreams
from vitascope.runtime.completeness import Completeness
from vitascope.runtime.deliveries import DeliveryBook
from vitascope.runtime.job_index import JobIndex
from vitascope.runtime.ports import Bus, Clock, Ledger, ObjectStore, Registry, SystemClock
from vitascope.runtime.settings import IngressSettings, S3Settings
from vitascope.runtime.tenant_index import TenantIndex
from vitascope.runtime.tenants import TenantBook
from vitascope.screen import PromptScreen


class Signer(Protocol):
    """Makes URLs that open without a key."""

    async def sign(self, ref: ObjectRef) -> tuple[str, datetime]:
        """The URL and the moment it expires."""
        ...


@dataclass(frozen=True)
class IngressDeps:
    """What wiring gives to `create_app`."""

    settings: IngressSettings
    catalog: Catalog
    ledger: Ledger
    bus: Bus
    registry: Registry
    store: ObjectStore
    signer: Signer
    completeness: Completeness
    tenants: TenantBook
    references: ReferenceReader
    deliveries: DeliveryBook
    addresses: AddressCheck
    clock: Clock = field(default_factory=SystemClock)
    rng: random.Random = field(default_factory=random.SystemRandom)
    retention: Retention = field(default_factory=lambda: S3Settings().retention)
    prompt_screen: PromptScreen | None = None


@dataclass(frozen=True)
class Door:
    """One application's ports and read models."""

    deps: IngressDeps
    jobs: JobIndex
    groups: GroupIndex
    progress: ProgressIndex
    metrics: IngressMetrics
    tenants: TenantIndex
    authenticator: Authenticator
    limits: Limits
    disk: Room
    memory: Room
    syncs: Room
    streams: OpenStreams = field(default_factory=OpenStreams)
    followers: Followers = field(default_factory=Followers)

    @property
    def now(self) -> datetime:
        """The time of day."""
        return self.deps.clock.now()


def make_door(deps: IngressDeps) -> Door:
    """A door whose read models are still empty."""
    jobs, groups, tenants = JobIndex(), GroupIndex(deps.clock), TenantIndex(deps.tenants)
    return Door(
        deps=deps,
        jobs=jobs,
        groups=groups,
        progress=ProgressIndex(),
        metrics=IngressMetrics(jobs, groups),
        tenants=tenants,
        authenticator=Authenticator(deps.settings, tenants, deps.clock),
        limits=Limits(tenants, jobs, deps.clock, deps.settings.max_queued),
        disk=Room(deps.settings.upload_room_bytes, "Too many uploads are on their way at the moment."),
        memory=Room(INLINE_SHARE * deps.settings.max_inline_bytes, "Too many large bodies are read at the moment."),
        syncs=Room(deps.settings.max_syncs, "Too many requests wait for their video at the moment."),
    )


def get_door(app: FastAPI) -> Door:
    """The door of an application that `create_app` made."""
    door = app.state.door
    assert isinstance(door, Door), "create_app puts the door there"
    return door


def _find_door(request: Request) -> Door:
    app = request.app
    assert isinstance(app, FastAPI), "requests come from the application"
    return get_door(app)


GivenDoor = Annotated[Door, Depends(_find_door)]
"""The parameter by which a handler gets the door."""
