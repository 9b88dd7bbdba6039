"""`vitascope tenants …` against a real door."""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from doors import JOBS, World
from tenancy import ADMIN_KEY, bearer
from vitascope.cli import app, tenants
from vitascope.cli.client import Client
from vitascope.cli.exits import CommandError
from vitascope.cli.tenants import check_key_id, make_limits

NONE = (None, None, None)
Run = Callable[..., tuple[Any, str]]


@pytest.fixture
def service() -> Iterator[TestClient]:
    """A door in memory, whose logs do not end in what the command prints."""
    with capture_logs(), TestClient(World().make_app(api_key=ADMIN_KEY), base_url="http://127.0.0.1") as opened:
        yield opened


@pytest.fixture
def run(service: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in this process, talking to that door: exit status and standard output."""
    real = httpx.Client

    def answer(request: httpx.Request) -> httpx.Response:
        reply = service.request(request.method, request.url.path, content=request.content, headers=request.headers)
        return httpx.Response(reply.status_code, content=reply.content, headers={"content-type": "application/json"})

    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(tenants, "find_client", lambda: Client("http://127.0.0.1", ADMIN_KEY))

    def call(*arguments: str) -> tuple[Any, str]:
        monkeypatch.setattr(sys, "argv", ["vitascope", "tenants", *arguments])
        with monkeypatch.context() as patched:
            patched.setattr(httpx, "Client", lambda **options: real(**options, transport=transport))
            with pytest.raises(SystemExit) as ended:
                app.main()
        return ended.value.code, capsys.readouterr().out

    return call


def test_a_tenant_from_its_making_to_its_last_key(run: Run, service: TestClient) -> None:
    """Created, changed, given a key that works, rotated, revoked, shown."""
    assert 0 == run("create", "acme", "--live-jobs", "3", "--rate", "2.5", "--tier", "batch")[0]
    status, text = run("change", "acme", "--live-jobs", "none", "--gpu-seconds", "3600", "--weight", "2", "--json")
    changed = json.loads(text)
    assert (0, {"gpu_seconds_per_day": 3600.0, "live_jobs": None, "queued_jobs": None}) == (status, changed["quotas"])
    assert ({"per_second": 2.5, "burst": 2}, ["batch"]) == (changed["rate"], changed["tiers"])
    key = run("key", "acme", "--label", "laptop", "--days", "1")[1].strip()
    assert 200 == service.get(JOBS, headers=bearer(key)).status_code
    fresh = json.loads(run("rotate", "acme", key, "--overlap", "0", "--json")[1])
    assert [401, 200] == [service.get(JOBS, headers=bearer(one)).status_code for one in (key, fresh["key"])]
    shown = run("show", "acme")[1]
    assert f"{fresh['id']}\tjobs:read, jobs:write laptop" in shown
    assert (0, f"{fresh['id']} is revoked\n") == run("revoke", "acme", fresh["id"])
    assert 401 == service.get(JOBS, headers=bearer(fresh["key"])).status_code
    assert "acme\t2.0\t" in run("list")[1]
    assert ["acme"] == [tenant["name"] for tenant in json.loads(run("list", "--json")[1])["data"]]


def test_a_disabled_tenant(run: Run, service: TestClient) -> None:
    """Refused, and taken again."""
    run("create", "acme")
    key = json.loads(run("key", "acme", "--scope", "jobs:read", "--json")[1])["key"]
    statuses = []
    for option in ("--disable", "--enable"):
        assert 0 == run("change", "acme", option)[0]
        statuses.append(service.get(JOBS, headers=bearer(key)).status_code)
    assert [403, 200] == statuses


@pytest.mark.parametrize(
    ("status", "arguments"),
    [
        pytest.param(3, ["show", "nobody"], id="unknown"),
        pytest.param(2, ["show", "../x"], id="no-name"),
        pytest.param(2, ["revoke", "acme", "sk-1"], id="no-key"),
        pytest.param(2, ["create", "acme", "--live-jobs", "many"], id="no-number"),
        pytest.param(2, ["create", "acme", "--burst", "3"], id="burst-alone"),
    ],
)
def test_what_cannot_be_done(run: Run, status: int, arguments: list[str]) -> None:
    """The exit status says whose fault it is."""
    assert status == run(*arguments)[0]


@pytest.mark.parametrize(
    ("body", "options"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"quotas": {"live_jobs": 3}}, {"quotas": (None, "3", None)}, id="number"),
        pytest.param({"quotas": {"gpu_seconds_per_day": 0.5}}, {"quotas": ("0.5", None, None)}, id="fraction"),
        pytest.param({"quotas": {"queued_jobs": None}}, {"quotas": (None, None, "none")}, id="no-limit"),
        pytest.param({"rate": None}, {"rate": "none"}, id="no-rate"),
        pytest.param({"rate": {"per_second": 0.1, "burst": 1}}, {"rate": "0.1"}, id="slow-rate"),
        pytest.param({"rate": {"per_second": 5, "burst": 9}}, {"rate": "5", "burst": 9}, id="burst"),
    ],
)
def test_options_are_fields(body: dict[str, Any], options: dict[str, Any]) -> None:
    """What is not given is not sent."""
    assert body == make_limits(None, None, **({"quotas": NONE, "rate": None, "burst": None} | options))


def test_a_whole_key_is_cut_to_what_may_be_shown() -> None:
    """It must not end in an address, where logs would keep it."""
    assert "vsk_aaaaaaah" == check_key_id("vsk_aaaaaaah_secretsecret")
    with pytest.raises(CommandError):
        check_key_id("vsk_../../x")
