"""The client of the job API against answers that a test makes up."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from vitascope.cli import client as client_module
from vitascope.cli.client import Client, parse_events
from vitascope.cli.exits import CommandError, Exit

NO_SIZE = {"error": {"message": "No such size.", "code": "shape_not_allowed", "param": "size"}}
Answer = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], Client]:
    """A client whose requests are answered by a function instead of the network."""
    real = httpx.Client

    def start(answer: Answer) -> Client:
        transport = httpx.MockTransport(answer)
        monkeypatch.setattr(client_module.httpx, "Client", lambda **options: real(**options, transport=transport))
        return Client("http://service", "secret")

    return start


def test_key_and_idempotency_are_sent(serve: Callable[[Answer], Client]) -> None:
    """A request carries who asks and which request it is."""
    seen: list[httpx.Headers] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers)
        return httpx.Response(202, json={"id": "vj_1"})

    assert {"id": "vj_1"} == serve(answer).submit({"prompt": "x"}, "key-1")
    assert ("Bearer secret", "key-1") == (seen[0]["authorization"], seen[0]["idempotency-key"])


@pytest.mark.parametrize(
    ("what", "response"),
    [
        pytest.param(
            "No such size.",
            httpx.Response(
                400, json={"error": {"message": "No such size.", "code": "shape_not_allowed", "param": "size"}}
            ),
            id="our error",
        ),
        pytest.param("the service answered 502", httpx.Response(502, text="<html>"), id="a proxy's page"),
        pytest.param("the service answered 500", httpx.Response(500, json=["odd"]), id="another shape"),
    ],
)
def test_error_answers_are_said(serve: Callable[[Answer], Client], what: str, response: httpx.Response) -> None:
    """The service's own words, or at least its status."""
    with pytest.raises(CommandError) as raised:
        serve(lambda _: response).get("vj_1")
    assert (Exit.REJECTED, what) == (raised.value.code, raised.value.what)


def test_silence_is_unreachable(serve: Callable[[Answer], Client]) -> None:
    """Nothing answers: the address is named."""

    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(CommandError, match="http://service") as raised:
        serve(answer).queue()
    assert Exit.UNREACHABLE is raised.value.code


def test_download_is_whole_or_not_at_all(serve: Callable[[Answer], Client], tmp_path: Path) -> None:
    """A connection that breaks leaves no file, not even a partial one, and an old file as it was."""
    target = tmp_path / "out.mp4"
    target.write_bytes(b"old")

    class Cut(httpx.SyncByteStream):
        def __iter__(self):  # type: ignore[no-untyped-def]  # noqa: ANN204 (httpx's own signature)
            yield b"half"
            raise httpx.ReadError("cut")

    with pytest.raises(CommandError):
        serve(lambda _: httpx.Response(200, stream=Cut())).download("vj_1", target)
    assert {"out.mp4": b"old"} == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    size = serve(lambda _: httpx.Response(200, content=b"whole")).download("vj_1", target)
    assert (5, b"whole") == (size, target.read_bytes())


@pytest.mark.parametrize(
    ("expected", "lines"),
    [
        pytest.param([("7", "status", "a")], ["event: status", "id: 7", "data: a", ""], id="all fields"),
        pytest.param([("", "message", "a\nb")], ["data: a", "data:b", ""], id="two lines of data"),
        pytest.param([], [": keep-alive", ""], id="comment"),
        pytest.param([], ["retry: 2000", ""], id="no data"),
        pytest.param([], ["data: cut off"], id="unfinished event"),
    ],
)
def test_event_stream(expected: list[tuple[str, str, str]], lines: list[str]) -> None:
    """What the standard calls an event, and what it does not."""
    assert expected == list(parse_events(iter(lines)))
