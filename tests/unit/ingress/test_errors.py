"""One error shape for everything, and a table that is complete."""

import json
from typing import Any

import httpx
import pytest

from doors import JOBS, PROMPT, World, get_door, open_door, read_error
from vitascope.contracts.failures import FAILURES, FailureCode, FailureKind, VitascopeError
from vitascope.ingress.errors import STATUS, make_error_response


class Broken(Exception):
    """A bug."""


@pytest.mark.parametrize("code", FailureCode)
def test_every_code_can_be_answered(code: FailureCode) -> None:
    """A client's mistake is 4xx, ours 5xx; outages and inner codes are told by the two words for them."""
    response = make_error_response(VitascopeError(code, "detail"))
    assert response.status_code == STATUS[FailureCode(_code(response.body))]
    is_refusal = FAILURES[code].kind is FailureKind.REFUSED
    assert is_refusal is (response.status_code < 500 or code is FailureCode.SYNC_TIMED_OUT)
    if code not in STATUS:
        assert _code(response.body) in {"service_unavailable", "internal_error"}
        assert b"detail" not in response.body


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        pytest.param("GET", "/nothing", 404, "not_found", id="no-route"),
        pytest.param("GET", "/v1/video-jobs/", 404, "not_found", id="trailing-slash"),
        pytest.param("GET", "/docs", 404, "not_found", id="no-swagger"),
        pytest.param("DELETE", JOBS, 405, "method_not_allowed", id="method"),
        pytest.param("PATCH", "/healthz", 405, "method_not_allowed", id="method-of-a-probe"),
        pytest.param("GET", f"{JOBS}?limit=x", 400, "invalid_request", id="parameter"),
    ],
)
async def test_the_framework_speaks_our_shape(
    client: httpx.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    """What no handler of ours answers, too; security headers stand on it."""
    response = await client.request(method, path)
    read_error(response, status, code)
    assert "nosniff" == response.headers["x-content-type-options"]
    assert "no-store" == response.headers["cache-control"]


async def test_405_lists_what_is_taken(client: httpx.AsyncClient) -> None:
    """Every method of the address, though each is a route of its own."""
    assert "GET, POST" == (await client.delete(JOBS)).headers["allow"]
    assert "GET, HEAD" == (await client.delete(f"{JOBS}/x/content")).headers["allow"]


async def test_a_bug_is_500_with_a_number_and_is_raised_again(world: World, logs: list[Any]) -> None:
    """The client gets a number, the log gets the number and the cause, and the server sees the error itself."""
    app = world.make_app()

    def break_down(*_: object) -> None:
        raise Broken("secret /etc/passwd")

    get_door(app).jobs.find_place = break_down  # type: ignore[method-assign, assignment]
    async with open_door(app, raise_app_exceptions=False) as client:
        response = await client.post(JOBS, json=PROMPT)
    error = read_error(response, 500, "internal_error")
    assert "secret" not in response.text
    (line,) = [line for line in logs if line["event"] == "unexpected error"]
    assert line["error_id"] in error["message"]
    assert isinstance(line["exc_info"], Broken)
    assert "nosniff" == response.headers["x-content-type-options"]
    async with open_door(app) as client:
        with pytest.raises(Broken):
            await client.post(JOBS, json=PROMPT)


def _code(body: bytes | memoryview) -> str:
    code: str = json.loads(bytes(body))["error"]["code"]
    return code
