"""Lists that the server gives in pages."""

import json
from types import SimpleNamespace
from typing import Any, cast

from vitascope.adapters.jetstream.api import call_pages
from vitascope.adapters.jetstream.bus import JetStreamBus
from vitascope.adapters.jetstream.connection import Connection


class PagedServer:
    """Answers for a stream with some subjects, `limit` in a page; an empty one knows no limit, as the real one."""

    def __init__(self, subjects: list[str], limit: int) -> None:
        self.subjects, self.limit = subjects, limit
        self.asked: list[int] = []

    async def request(self, subject: str, payload: bytes) -> SimpleNamespace:
        assert "$JS.API.STREAM.INFO.VITASCOPE_WORK" == subject
        offset = json.loads(payload)["offset"]
        self.asked.append(offset)
        page = self.subjects[offset : offset + self.limit]
        state: dict[str, Any] = {"subjects": dict.fromkeys(page, 1)} if page else {}
        total = len(self.subjects)
        answer = {"total": total, "offset": offset, "limit": self.limit if total else 0, "state": state}
        return SimpleNamespace(data=json.dumps(answer).encode())


def connect(server: PagedServer) -> Connection:
    return cast("Connection", server)  # all that a call needs of a connection is its request


async def test_work_is_listed_over_all_pages() -> None:
    """Each page is asked for once, and the subjects come sorted."""
    server = PagedServer([f"s{number}" for number in (4, 2, 0, 3, 1)], limit=2)
    assert ["s0", "s1", "s2", "s3", "s4"] == await JetStreamBus(connect(server)).list_work()
    assert [0, 2, 4] == server.asked


async def test_empty_stream_has_one_page() -> None:
    """It is asked once and has nothing."""
    server = PagedServer([], limit=2)
    assert [] == await JetStreamBus(connect(server)).list_work()
    assert [0] == server.asked


async def test_list_that_shrinks_meanwhile_ends() -> None:
    """The newest total counts."""
    server = PagedServer(["a", "b", "c", "d", "e"], limit=2)
    async for _ in call_pages(connect(server), "STREAM.INFO.VITASCOPE_WORK"):
        server.subjects = server.subjects[:2]
    assert [0, 2] == server.asked
