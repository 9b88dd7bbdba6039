"""A moderation service on this machine, as OpenAI's answers: what it flags is said by the test."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class ModerationService:
    """What it does now, and what it was asked.

    Attributes:
        url: where it is.
        flagged_word: a text with it is flagged.
        flags_pictures: whether every picture is.
        status: of its answers; other than 200 there is no result.
        asked: the bodies of its requests.
        keys: their bearer tokens.
    """

    url: str = ""
    flagged_word: str = "unmentionable"
    flags_pictures: bool = False
    status: int = 200
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    def judge(self, item: str | dict[str, Any]) -> dict[str, Any]:
        """The result for one input."""
        is_flagged = self.flagged_word in item if isinstance(item, str) else self.flags_pictures
        return {"flagged": is_flagged, "categories": {"violence": is_flagged, "hate": False}, "category_scores": {}}

    @property
    def pictures(self) -> int:
        """How many pictures it was asked about."""
        return sum(isinstance(item, dict) for body in self.asked for item in body["input"])


@contextmanager
def serving_moderation() -> Iterator[ModerationService]:
    """The service, on a free port of loopback."""
    service = ModerationService()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            service.asked.append(body)
            service.keys.append(self.headers.get("authorization", ""))
            results = [service.judge(item) for item in body["input"]]
            answer = json.dumps({"id": "modr-1", "model": "test", "results": results}).encode()
            self.send_response(service.status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_parts: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_port}/v1/moderations"
    thread = threading.Thread(target=server.serve_forever, name="moderation")
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
