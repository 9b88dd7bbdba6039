"""The client of the job API against answers that a test makes up."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from vitascope.cli.client import Client, client_from_environment, parse_events
from vitascope.cli.exits import CommandError, Exit

JOB = {
    "id": "vj_1", "status": "queued", "prompt": "x", "width": 64, "height": 64, "num_frames": 5, "fps": 8, "seed": 7,
    "steps": 4,
}  # fmt: skip
Answer = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], Client]:
    """A client whose requests are answered by a function instead of the network."""
    real = httpx.Client

    def start(answer: Answer) -> Client:
        transport = httpx.MockTransport(answer)
        monkeypatch.setattr(httpx, "Client", lambda **options: real(**options, transport=transport))
        return Client("http://service", "secret")

    return start


def test_key_and_idempotency_are_sent(serve: Callable[[Answer], Client]) -> None:
    """A request carries who asks and which request it is."""
    seen: list[httpx.Headers] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers)
        return httpx.Response(202, json=JOB)

    assert JOB == serve(answer).submit({"prompt": "x"}, "key-1")
    assert ("Bearer secret", "key-1") == (seen[0]["authorization"], seen[0]["idempotency-key"])


def refuse(status: int, code: str, param: str | None = None) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": "No.", "code": code, "param": param}})


@pytest.mark.parametrize(
    ("status", "what", "why", "fix", "response"),
    [
        pytest.param(3, "No.", "field size", "vitascope models", refuse(400, "shape_not_allowed", "size"), id="shape"),
        pytest.param(3, "No.", "", "vitascope models", refuse(404, "model_not_found"), id="model"),
        pytest.param(3, "No.", "", "VITASCOPE_API_KEY", refuse(401, "unauthenticated"), id="key"),
        pytest.param(3, "No.", "", "jobs list", refuse(404, "not_found"), id="no such job"),
        pytest.param(3, "No.", "", "jobs watch", refuse(409, "not_ready"), id="too early"),
        pytest.param(3, "No.", "", "jobs show", refuse(409, "not_retryable"), id="not failed"),
        pytest.param(3, "No.", "", "Nothing is to be done", refuse(409, "not_preemptable"), id="not running"),
        pytest.param(3, "No.", "", "", refuse(409, "idempotency_conflict"), id="nothing to do"),
        pytest.param(6, "No.", "", "Try again later", refuse(429, "queue_full"), id="queue full"),
        pytest.param(6, "No.", "", "Try again later", refuse(503, "service_unavailable"), id="outage"),
        pytest.param(
            6,
            "the service answered 502",
            "",
            "Try again later",
            httpx.Response(502, text="<html>"),
            id="a proxy's page",
        ),
        pytest.param(
            6, "the service answered 500", "", "Try again later", httpx.Response(500, json=["odd"]), id="another shape"
        ),
    ],
)
def test_refusals_are_said(  # each column is one thing that a user reads
    serve: Callable[[Answer], Client], status: int, what: str, why: str, fix: str, response: httpx.Response
) -> None:
    """The service's own words or at least its status, the field at fault, and what to do if that is known."""
    with pytest.raises(CommandError) as raised:
        serve(lambda _: response).get("vj_1")
    error = raised.value
    assert (status, what, why) == (error.code, error.what, error.why)
    assert (bool(fix), True) == (bool(error.fix), fix in error.fix)


@pytest.mark.parametrize("verb", ["cancel", "retry", "preempt"])
def test_deeds_are_posted_to_the_job(serve: Callable[[Answer], Client], verb: str) -> None:
    """Without a body, at the job's own address; the answer is a job."""
    seen: list[tuple[str, str, bytes]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.method, request.url.path, request.content))
        return httpx.Response(202, json=JOB)

    assert JOB == getattr(serve(answer), verb)("vj_1")
    assert [("POST", f"/v1/video-jobs/vj_1/{verb}", b"")] == seen


def test_code_of_a_refusal_is_for_programs(serve: Callable[[Answer], Client]) -> None:
    """The stable word stands in the JSON form, in a field of its own."""
    with pytest.raises(CommandError) as raised:
        serve(lambda _: refuse(409, "not_ready")).get("vj_1")
    assert ("No.", "not_ready", 3) == tuple(raised.value.to_json()[name] for name in ("what", "code", "exit"))


ASKS: dict[str, Callable[[Client], object]] = {
    "job": lambda client: client.get("vj_1"),
    "jobs": lambda client: client.list(),
    "models": lambda client: client.models(),
    "queue": lambda client: client.queue(),
    "readiness": lambda client: client.readiness(),
    "events": lambda client: list(client.follow("vj_1")),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
@pytest.mark.parametrize(
    "response",
    [
        pytest.param(lambda: httpx.Response(200, text="<html>"), id="page"),
        pytest.param(lambda: httpx.Response(200, json=[1]), id="list"),
        pytest.param(lambda: httpx.Response(200, json={"data": [{"id": "gpt"}]}), id="another API"),
        pytest.param(lambda: httpx.Response(404, json={"detail": "Not Found"}), id="no such address"),
        pytest.param(lambda: httpx.Response(302, headers={"location": "/login"}), id="redirect"),
    ],
)
def test_another_service_is_told_from_ours(
    serve: Callable[[Answer], Client], ask: Callable[[Client], object], response: Callable[[], httpx.Response]
) -> None:
    """Whatever listens at the address, its answer ends in a sentence that names it."""
    with pytest.raises(CommandError, match="http://service does not speak the vitascope API") as raised:
        ask(serve(lambda _: response()))
    assert Exit.REJECTED is raised.value.code


def test_unready_service_says_what_is_missing(serve: Callable[[Answer], Client]) -> None:
    """Its status is an error's, its answer is not."""
    body = {"ready": False, "checks": {"nats": False}}
    assert (False, body) == serve(lambda _: httpx.Response(503, json=body)).readiness()


def test_id_stays_one_part_of_the_address(serve: Callable[[Answer], Client]) -> None:
    """What a user types for an id reaches no other address."""
    seen: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.raw_path)
        return refuse(404, "not_found")

    with pytest.raises(CommandError):
        serve(answer).get("../queue?x")
    assert [b"/v1/video-jobs/..%2Fqueue%3Fx"] == seen


@pytest.mark.parametrize("url", ["http://[::1", "localhost:8765", "ftp://x", "http://", "http://x:99999", "\x00"])
def test_bad_address_names_the_variable(url: str) -> None:
    """A slip in the environment is a wrong command line, not an outage."""
    with pytest.raises(CommandError, match="VITASCOPE_URL") as raised:
        client_from_environment(url)
    assert Exit.USAGE is raised.value.code


def test_key_that_no_header_carries_is_said_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is named, its value is not."""
    monkeypatch.setenv("VITASCOPE_API_KEY", "schlüssel")
    with pytest.raises(CommandError, match="VITASCOPE_API_KEY") as raised:
        client_from_environment("http://x")
    assert (Exit.USAGE, False) == (raised.value.code, "schl" in str(raised.value.to_json()))


def test_unusable_proxy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of a kind that cannot be used ends in a sentence."""
    monkeypatch.setenv("ALL_PROXY", "gopher://x")
    with pytest.raises(CommandError, match="proxy") as raised:
        Client("http://service").queue()
    assert Exit.USAGE is raised.value.code


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
