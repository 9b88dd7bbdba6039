"""A tiny S3 server that checks nothing and can be told to lie. One bucket, objects in memory."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

UPLOAD = b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"


class CarelessS3:
    """What it holds, and how it lies.

    Attributes:
        lose_bytes: that many last bytes of a stored body, or of the last part, are lost.
        own_etag: the ETag of everything; MD5 as S3 has it if absent.
        refuse: status and body that answer every PUT.
        hiccups: that many PUTs are answered with 503 first.
        reads: GET requests so far.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.parts: dict[int, bytes] = {}
        self.lose_bytes = 0
        self.own_etag: str | None = None
        self.refuse: tuple[int, bytes] | None = None
        self.hiccups = 0
        self.reads = 0
        self.endpoint = ""

    def keep(self, content: bytes) -> bytes:
        return content[: len(content) - self.lose_bytes]

    def etag(self, content: bytes) -> str:
        return self.own_etag or hashlib.md5(content).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: ClassVar[CarelessS3]

    def do_PUT(self) -> None:
        state, body = self.server_state, self._body()
        if state.hiccups:
            state.hiccups -= 1
            self._answer(503, b"<Error><Code>SlowDown</Code></Error>")
        elif state.refuse:
            self._answer(*state.refuse)
        elif part := parse_qs(urlsplit(self.path).query).get("partNumber"):
            state.parts[int(part[0])] = body
            self._answer(200, b"", state.etag(body))
        else:
            state.objects[self._key()] = state.keep(body)
            self._answer(200, b"", state.etag(state.keep(body)))

    def do_POST(self) -> None:
        state = self.server_state
        self._body()
        if "uploadId" not in self.path:
            state.parts.clear()
            self._answer(200, UPLOAD)
            return
        parts = [state.parts[number] for number in sorted(state.parts)]
        parts[-1] = state.keep(parts[-1])
        state.objects[self._key()] = b"".join(parts)
        digests = b"".join(hashlib.md5(part).digest() for part in parts)
        etag = state.own_etag or f"{hashlib.md5(digests).hexdigest()}-{len(parts)}"
        self._answer(200, f"<R><Bucket>b</Bucket><Key>k</Key><ETag>{etag}</ETag></R>".encode())

    def do_GET(self) -> None:
        self.server_state.reads += 1
        self._answer(200, self.server_state.objects[self._key()], "0")

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def _key(self) -> str:
        return urlsplit(self.path).path

    def _answer(self, status: int, body: bytes, etag: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        if etag:
            self.send_header("ETag", f'"{etag}"')
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def careless_s3() -> Iterator[CarelessS3]:
    state = CarelessS3()
    handler = type("Handler", (_Handler,), {"server_state": state})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        state.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
