"""The reader of reference media, with its folder and its way out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from vitascope.ingress.references import ReferenceReader
from vitascope.outbound import AddressRules, Outbound
from vitascope.runtime.ports import ObjectStore
from vitascope.runtime.scratch import own_scratch
from vitascope.runtime.settings import ReferencesSettings


@asynccontextmanager
async def open_reference_reader(settings: ReferencesSettings, store: ObjectStore) -> AsyncIterator[ReferenceReader]:
    """A reader; its folder is removed at the end, and those of processes that were killed at the start."""
    rules = AddressRules(
        allow_http=settings.allow_http,
        follow_redirects=settings.follow_redirects,
        allowed=settings.allow_networks,
    )
    with own_scratch(settings.scratch, "ingress") as folder:
        async with Outbound(rules) as outbound:
            yield ReferenceReader(settings, outbound, store, folder)
