"""A client of the job API."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from vitascope.cli.exits import CommandError, Exit

TIMEOUT_S = 30.0
CHUNK_BYTES = 256 * 1024

Json = dict[str, Any]  # answers of the HTTP API, read by name and shown; the service has validated them


@dataclass(frozen=True)
class Client:
    """Talks to one service.

    Errors: `CommandError` with `UNREACHABLE` if nothing answers, with `REJECTED` and the service's own words if it
    turns the request down.
    """

    url: str
    api_key: str | None = None

    def submit(self, body: Json, idempotency_key: str) -> Json:
        """Create a job; sent again with the same key it is the same job."""
        return self._json("POST", "/v1/video-jobs", json=body, headers={"Idempotency-Key": idempotency_key})

    def get(self, job: str) -> Json:
        """The job as it is now."""
        return self._json("GET", f"/v1/video-jobs/{job}")

    def list(self, **query: str | int | None) -> Json:
        """A page of jobs: `data`, `has_more`."""
        return self._json("GET", "/v1/video-jobs", params={k: v for k, v in query.items() if v is not None})

    def cancel(self, job: str) -> Json:
        """Cancel the job; doing it twice is the same as once."""
        return self._json("POST", f"/v1/video-jobs/{job}/cancel")

    def models(self) -> Json:
        """What the service offers."""
        return self._json("GET", "/v1/models")

    def queue(self) -> Json:
        """What waits and what runs."""
        return self._json("GET", "/v1/queue")

    def readiness(self) -> tuple[bool, Json]:
        """Whether a job would run, and what the service says about its parts."""
        response = self._send("GET", "/readyz")
        return response.status_code == httpx.codes.OK, response.json()

    def download(self, job: str, path: Path) -> int:
        """Write the finished video to a file, whole or not at all; returns its length in bytes."""
        partial = path.with_name(f".{path.name}.partial")
        try:
            with self._open() as http, http.stream("GET", f"/v1/video-jobs/{job}/content") as response:
                if response.is_error:
                    response.read()
                    raise rejected(response)
                with partial.open("wb") as out:
                    for piece in response.iter_bytes(CHUNK_BYTES):
                        out.write(piece)
            partial.replace(path)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        except OSError as error:
            raise CommandError(Exit.FAILED, f"{path} could not be written", why=str(error)) from error
        finally:
            partial.unlink(missing_ok=True)
        return path.stat().st_size

    def follow(self, job: str) -> Iterator[tuple[str, str, str]]:
        """Server-sent events of a job as (id, event, data), until the service closes the stream."""
        try:
            with self._open(read_s=60.0) as http, http.stream("GET", f"/v1/video-jobs/{job}/events") as response:
                if response.is_error:
                    response.read()
                    raise rejected(response)
                yield from parse_events(response.iter_lines())
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _json(self, method: str, path: str, **options: Any) -> Json:  # options of httpx
        response = self._send(method, path, **options)
        if response.is_error:
            raise rejected(response)
        answer: Json = response.json()
        return answer

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:  # as above
        try:
            with self._open() as http:
                return http.request(method, path, **options)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _open(self, read_s: float = TIMEOUT_S) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        timeout = httpx.Timeout(TIMEOUT_S, read=read_s)
        return httpx.Client(base_url=self.url, headers=headers, timeout=timeout, follow_redirects=False)

    def _unreachable(self, error: httpx.TransportError) -> CommandError:
        return CommandError(
            Exit.UNREACHABLE,
            f"no answer from {self.url}",
            why=str(error) or type(error).__name__,
            fix="Start a service with `vitascope up`, or set VITASCOPE_URL to one that runs.",
        )


def rejected(response: httpx.Response) -> CommandError:
    """The service's own words as an error."""
    try:
        error = response.json()["error"]
        what, code, param = error["message"], error["code"], error.get("param")
    except (ValueError, KeyError, TypeError):
        what, code, param = f"the service answered {response.status_code}", None, None
    why = ", ".join(part for part in (f"code {code}" if code else "", f"field {param}" if param else "") if part)
    return CommandError(Exit.REJECTED, what, why=why)


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
    """A client with the key of `$VITASCOPE_API_KEY`."""
    return Client(url.rstrip("/"), os.environ.get("VITASCOPE_API_KEY") or None)
