"""The publish process: everything that follows the ledger, side by side."""

import asyncio

from vitascope.publish.announce import Announcer
from vitascope.publish.copies import AfterCopy, Copier
from vitascope.publish.follow import Follower
from vitascope.publish.janitor import Janitor
from vitascope.publish.sweep import Sweeper
from vitascope.runtime.ports import Bus, Clock, Ledger, ObjectStore


class Publisher:
    """Announces changes, keeps copies, sweeps up. Two at once do no harm: the second repeats what the first did."""

    def __init__(self, ledger: Ledger, bus: Bus, store: ObjectStore, clock: Clock) -> None:
        copier = Copier(ledger, store)
        self._followers = (
            Follower("announce", Announcer(bus, clock, copier), ledger=ledger, store=store, clock=clock),
            Follower("copies", copier, ledger=ledger, store=store, clock=clock),
            Follower("sweep", AfterCopy(copier, Sweeper(store)), ledger=ledger, store=store, clock=clock),
        )

    async def run(self) -> None:
        """Work until cancelled. Each follows the ledger by itself, so that an outage of one's server stops one."""
        async with asyncio.TaskGroup() as group:
            for follower in self._followers:
                group.create_task(follower.run(), name=f"publish {follower.name}")


async def publish_and_clean(publisher: Publisher, janitor: Janitor) -> None:
    """Both, until cancelled: the janitor makes records expire, the publisher's sweeper sees it and removes files."""
    async with asyncio.TaskGroup() as group:
        group.create_task(publisher.run(), name="publish")
        group.create_task(janitor.run(), name="janitor")
