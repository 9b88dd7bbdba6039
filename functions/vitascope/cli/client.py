"""A client of the job API."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from vitascope.cli.answers import (
    JOB,
    JOBS,
    MODELS,
    QUEUE,
    READINESS,
    Json,
    fits,
    make_foreign,
    make_refusal,
    read_answer,
    read_json,
)
from vitascope.cli.exits import CommandError, Exit

TIMEOUT_S = 30.0
CHUNK_BYTES = 256 * 1024
MAX_PORT = 65535


@dataclass(frozen=True)
class Client:
    """Talks to one service.

    Errors: `CommandError` with `UNREACHABLE` if nothing answers; with `REJECTED` or `NOT_READY` and the service's own
    words if it turns the request down; with `REJECTED` if what answers is no vitascope service.
    """

    url: str
    api_key: str | None = None

    def submit(self, body: Json, idempotency_key: str) -> Json:
        """Create a job; sent again with the same key it is the same job."""
        headers = {"Idempotency-Key": idempotency_key}
        return read_answer(self._send("POST", "/v1/video-jobs", json=body, headers=headers), JOB)

    def get(self, job: str) -> Json:
        """The job as it is now."""
        return read_answer(self._send("GET", _path(job)), JOB)

    def list(self, **query: str | int | None) -> Json:
        """A page of jobs: `data`, `has_more`."""
        given = {name: value for name, value in query.items() if value is not None}
        return read_answer(self._send("GET", "/v1/video-jobs", params=given), JOBS)

    def cancel(self, job: str) -> Json:
        """Cancel the job; doing it twice is the same as once."""
        return read_answer(self._send("POST", f"{_path(job)}/cancel"), JOB)

    def retry(self, job: str) -> Json:
        """The new job that goes on where a failed one stopped; doing it twice is the same as once."""
        return read_answer(self._send("POST", f"{_path(job)}/retry"), JOB)

    def preempt(self, job: str) -> Json:
        """Have the job give up its GPU group; doing it twice is the same as once."""
        return read_answer(self._send("POST", f"{_path(job)}/preempt"), JOB)

    def models(self) -> Json:
        """What the service offers."""
        return read_answer(self._send("GET", "/v1/models"), MODELS)

    def queue(self) -> Json:
        """What waits and what runs."""
        return read_answer(self._send("GET", "/v1/queue"), QUEUE)

    def readiness(self) -> tuple[bool, Json]:
        """Whether a job would run, and what the service says about its parts."""
        response = self._send("GET", "/readyz")
        body = read_json(response)
        if fits(body, READINESS):  # a service that is not ready says so with an error's status
            return response.is_success, body
        raise make_foreign(response) if response.is_success else make_refusal(response)

    def ask(self, method: str, path: str, shape: Json | None, *, json: Json | None = None) -> Json:
        """Any other request; without a shape the answer has no body."""
        response = self._send(method, path, json=json)
        if shape is None and response.is_success:
            return {}
        return read_answer(response, shape or {})

    def download(self, job: str, path: Path) -> int:
        """Write the finished video to a file, whole or not at all; returns its length in bytes."""
        partial = path.with_name(f".{path.name}.partial")
        try:
            with self._open() as http, http.stream("GET", f"{_path(job)}/content") as response:
                if not response.is_success:
                    response.read()
                    raise make_refusal(response)
                with partial.open("wb") as out:
                    for piece in response.iter_bytes(CHUNK_BYTES):
                        out.write(piece)
            partial.replace(path)
        except httpx.RequestError as error:
            raise self._unreachable(error) from error
        except OSError as error:
            raise CommandError(Exit.FAILED, f"{path} could not be written", why=str(error)) from error
        finally:
            partial.unlink(missing_ok=True)
        return path.stat().st_size

    def follow(self, job: str) -> Iterator[tuple[str, str, str]]:
        """Server-sent events of a job as (id, event, data), until the service closes the stream."""
        try:
            with self._open(read_s=60.0) as http, http.stream("GET", f"{_path(job)}/events") as response:
                if not response.is_success:
                    response.read()
                    raise make_refusal(response)
                if not response.headers.get("content-type", "").startswith("text/event-stream"):
                    raise make_foreign(response)
                yield from parse_events(response.iter_lines())
        except httpx.RequestError as error:
            raise self._unreachable(error) from error

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:  # options of httpx
        try:
            with self._open() as http:
                return http.request(method, path, **options)
        except httpx.RequestError as error:
            raise self._unreachable(error) from error

    def _open(self, read_s: float = TIMEOUT_S) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        timeout = httpx.Timeout(TIMEOUT_S, read=read_s)
        try:
            return httpx.Client(base_url=self.url, headers=headers, timeout=timeout, follow_redirects=False)
        except (ImportError, ValueError, httpx.InvalidURL) as error:  # the address itself was checked before
            raise CommandError(
                Exit.USAGE,
                "the proxy that the environment names cannot be used",
                why=str(error),
                fix="Correct HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, or name the service's host in NO_PROXY.",
            ) from error

    def _unreachable(self, error: httpx.RequestError) -> CommandError:
        return CommandError(
            Exit.UNREACHABLE,
            f"no answer from {self.url}",
            why=str(error) or type(error).__name__,
            fix="Start a service with `vitascope up`, or set VITASCOPE_URL to one that runs.",
        )


def parse_events(lines: Iterator[str]) -> Iterator[tuple[str, str, str]]:
    """Events of a `text/event-stream` (WHATWG HTML, section 9.2): comments are skipped, `data` lines are joined."""
    fields: dict[str, list[str]] = {}
    for line in lines:
        if not line:
            if "data" in fields:
                yield fields.get("id", [""])[-1], fields.get("event", ["message"])[-1], "\n".join(fields["data"])
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))


def client_from_environment(url: str) -> Client:
    """A client with the key of `$VITASCOPE_API_KEY`.

    Raises:
        CommandError: `USAGE`, the address is none or the key cannot be sent.
    """
    key = os.environ.get("VITASCOPE_API_KEY") or None
    if key is not None and not (key.isascii() and key.isprintable()):
        raise CommandError(Exit.USAGE, "VITASCOPE_API_KEY is no key", why="it has characters that no header can carry")
    if problem := find_problem(url):
        fix = "Set VITASCOPE_URL to an address such as http://127.0.0.1:8765."
        raise CommandError(Exit.USAGE, f"VITASCOPE_URL is no address of a service: {url}", why=problem, fix=fix)
    return Client(url.rstrip("/"), key)


def find_problem(url: str) -> str:
    """What is wrong with the address of a service; empty if nothing is."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        return str(error)
    if parsed.scheme not in {"http", "https"}:
        return "it does not begin with http:// or https://"
    if not parsed.host:
        return "it names no host"
    return "" if parsed.port is None or parsed.port <= MAX_PORT else f"there is no port {parsed.port}"


def _path(job: str) -> str:
    return f"/v1/video-jobs/{quote(job, safe='')}"
