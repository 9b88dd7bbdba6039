"""A stage process as Kubernetes and KServe clients see it: probes, predict, drain and signals, over real sockets."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

SCRIPT = Path(__file__).parents[1] / "stage_service.py"
LIMIT_S = 60.0
"""A step that takes longer has failed; none takes more than the import of kserve, a few seconds."""


class Service:
    """A running stage process; see `stage_service.py`."""

    def __init__(self, child: asyncio.subprocess.Process, log: Path) -> None:
        self.child, self._log = child, log
        self.told: list[dict[str, Any]] = []
        self.job = ""
        self.http = httpx.AsyncClient()

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def event(self) -> dict[str, Any]:
        return {"job": self.job, "tenant": "default", "attempt": 1, "stage": "decode"}

    @property
    def reference(self) -> dict[str, Any]:
        return {"job": self.job, "attempt": 1, "stage": "decode", "message_id": f"{self.job}:decode:1"}

    async def hear(self, what: str) -> dict[str, Any]:
        """The next thing of that kind that the process tells."""
        assert self.child.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            while line := await self.child.stdout.readline():
                told: dict[str, Any] = json.loads(line)
                self.told.append(told)
                if told["what"] == what:
                    return told
        raise AssertionError(f"ended without telling {what}: {self.told}, {self.log[-2000:]}")

    async def command(self, text: str) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(f"{text}\n".encode())
        await self.child.stdin.drain()
        await self.hear("obeyed")

    async def load(self) -> None:
        await self.command("loaded")
        await self.until_status("/v2/health/ready", 200)

    async def until_status(self, path: str, status: int) -> httpx.Response:
        async with asyncio.timeout(LIMIT_S):
            while True:
                answer = await self.http.get(path)
                if answer.status_code == status:
                    return answer
                await asyncio.sleep(0.02)

    async def predict(self, event: Any) -> httpx.Response:
        return await self.http.post("/v1/models/decode:predict", json={"instances": [event]})

    async def start_work(self) -> None:
        assert (await self.predict(self.event)).status_code == 200
        await self.hear("handling")

    async def exit_status(self) -> int:
        async with asyncio.timeout(LIMIT_S):
            return await self.child.wait()


@asynccontextmanager
async def running(folder: Path, kind: str = "polite", loading: str = "waits") -> AsyncIterator[Service]:
    log = folder / "stderr"
    path = os.pathsep.join(entry for entry in sys.path if entry)
    with log.open("wb") as stderr:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            SCRIPT,
            kind,
            loading,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "PYTHONPATH": path},
        )
    service = Service(child, log)
    try:
        bound = await service.hear("bound")
        service.job = bound["job"]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{bound['port']}", timeout=LIMIT_S) as service.http:
            yield service
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


async def test_probes_follow_the_life_of_the_model(tmp_path: Path) -> None:
    """Live from the start, ready only when it is loaded and the bus is there; the answer says what is missing."""
    async with running(tmp_path) as service:
        assert (await service.http.get("/v2/health/live")).json() == {"live": True}
        for path in ("/v2/health/ready", "/v2/models/decode/ready", "/v1/models/decode"):
            answer = await service.http.get(path)
            assert (answer.status_code, "being loaded" in answer.text) == (503, True), path
        assert (await service.predict(service.event)).status_code == 503
        await service.load()
        assert (await service.http.get("/v2/models/decode/ready")).json() == {"name": "decode", "ready": True}
        await service.command("disconnect")
        assert "bus" in (await service.until_status("/v2/health/ready", 503)).json()["error"]
        assert (await service.http.get("/v2/models/decode/ready")).status_code == 503
        assert (await service.http.get("/v2/health/live")).status_code == 200
        await service.command("connect")
        await service.until_status("/v2/health/ready", 200)


async def test_predict_answers_while_the_stage_works(tmp_path: Path) -> None:
    """The reference comes at once, probes answer beside a busy thread, and the same event twice runs once."""
    async with running(tmp_path) as service:
        await service.load()
        await service.start_work()
        again = await service.predict(service.event)
        assert again.json() == {"predictions": [service.reference]}
        for _ in range(20):
            answer = await service.http.get("/v2/health/live", timeout=2)
            assert answer.status_code == 200
        assert 'vitascope_stage_busy{stage="decode"} 1.0' in (await service.http.get("/metrics")).text
        await service.command("finish")
        service.child.send_signal(signal.SIGTERM)
        left = await service.hear("left")
        assert await service.exit_status() == 0
        assert left["state"] == "encoding"
        assert left["work"] == {"decode": False, "encode": True}
        assert [told["what"] for told in service.told].count("handling") == 1


async def test_predict_takes_every_form_of_an_event(tmp_path: Path) -> None:
    """v1, a CloudEvent in both modes, with and without time, the bare data, and v2 with a text or binary input."""
    async with running(tmp_path) as service:
        await service.load()
        v1 = "/v1/models/decode:predict"
        assert (await service.predict(service.event)).json() == {"predictions": [service.reference]}
        assert (await service.http.post(v1, json=service.event)).json() == service.reference
        envelope = {"specversion": "1.0", "id": "x", "source": "/s", "type": "t", "data": service.event}
        structured = {"content-type": "application/cloudevents+json"}
        for extra in ({}, {"time": "2026-01-01T00:00:00Z"}):
            answer = await service.http.post(v1, json=envelope | extra, headers=structured)
            assert answer.json()["data"] == service.reference
        binary = {"ce-specversion": "1.0", "ce-id": "x", "ce-source": "/s", "ce-type": "t"}
        answer = await service.http.post(v1, json=service.event, headers=binary)
        assert answer.json() == service.reference
        assert answer.headers["ce-specversion"] == "1.0"
        text = json.dumps(service.event)
        tensor: dict[str, Any] = {"name": "event", "shape": [1], "datatype": "BYTES"}
        answer = await service.http.post("/v2/models/decode/infer", json={"inputs": [tensor | {"data": [text]}]})
        assert json.loads(answer.json()["outputs"][0]["data"][0]) == service.reference
        raw = len(text).to_bytes(4, "little") + text.encode()
        head = json.dumps({"inputs": [tensor | {"parameters": {"binary_data_size": len(raw)}}]}).encode()
        answer = await service.http.post(
            "/v2/models/decode/infer",
            content=head + raw,
            headers={"inference-header-content-length": str(len(head)), "content-type": "application/octet-stream"},
        )
        assert json.loads(answer.json()["outputs"][0]["data"][0]) == service.reference


async def test_bad_events_are_refused_with_400(tmp_path: Path) -> None:
    """Whatever is sent, the answer is a 400 with a sentence; nothing is published and nothing is in the log."""
    async with running(tmp_path) as service:
        await service.load()
        event = service.event
        v1 = [
            {"instances": []},
            {"instances": [event, event]},
            {"instances": "text"},
            {"instances": [None]},
            {"instances": [event | {"stage": "encode"}]},
            {"instances": [event | {"attempt": 0}]},
            {"instances": [event | {"job": "vj_01ARZ3NDEKTSV4RRFFQ69G5FAV"}]},
            {"instances": [event | {"tenant": "somebody-else"}]},
            {"instances": [event | {"job": "../x"}]},
            {},
            [],
            "text",
            7,
            None,
        ]
        answers = [await service.http.post("/v1/models/decode:predict", json=body) for body in v1]
        tensor = {"name": "event", "shape": [1], "datatype": "BYTES", "data": [json.dumps(event)]}
        v2 = [
            {"inputs": []},
            {"inputs": [tensor, tensor]},
            {"inputs": [tensor | {"datatype": "INT32", "data": [1]}]},
            {"inputs": [tensor | {"datatype": "NONSENSE"}]},
            {"inputs": [tensor | {"shape": [3]}]},
            {"inputs": [tensor | {"data": ["{"]}]},
            {"inputs": [tensor | {"data": ["[1]"]}]},
            {"inputs": [tensor | {"data": [1]}]},
        ]
        answers += [await service.http.post("/v2/models/decode/infer", json=body) for body in v2]
        answers.append(await service.http.post("/v1/models/decode:predict", content=b"\xff\xfe"))
        shown = [(answer.status_code, answer.text) for answer in answers]
        assert [status for status, _ in shown] == [400] * len(shown), shown
        assert all(answer.json()["error"] for answer in answers)
        assert "Traceback" not in service.log
        service.child.send_signal(signal.SIGTERM)
        assert (await service.hear("left"))["work"] == {"decode": False, "encode": False}


async def test_face_offers_no_more_than_it_should(tmp_path: Path) -> None:
    """Metadata says what goes in and out; the model cannot be unloaded from outside; only loopback is listened on."""
    async with running(tmp_path) as service:
        await service.load()
        metadata = (await service.http.get("/v2/models/decode")).json()
        assert (metadata["name"], metadata["platform"]) == ("decode", "vitascope_decode")
        assert metadata["inputs"] == [{"name": "event", "datatype": "BYTES", "shape": [1]}]
        for deed in ("load", "unload"):
            assert (await service.http.post(f"/v2/repository/models/decode/{deed}")).status_code == 501
        assert (await service.http.get("/v2/models/other/ready")).status_code == 404
        await service.until_status("/v2/health/ready", 200)
        listening = [c for c in psutil.Process(service.child.pid).connections() if c.status == psutil.CONN_LISTEN]
        assert [service.http.base_url.port] == [c.laddr.port for c in listening]
        assert {"127.0.0.1"} == {c.laddr.ip for c in listening}
        assert "GET /v2" not in service.log


async def test_sigterm_while_busy_hands_back_and_exits_0(tmp_path: Path) -> None:
    """The work is free for others, uncounted, when the process is gone."""
    async with running(tmp_path) as service:
        await service.load()
        await service.start_work()
        service.child.send_signal(signal.SIGTERM)
        left = await service.hear("left")
        assert await service.exit_status() == 0
        assert left == {
            "what": "left",
            "state": "decoding",
            "failures": 0,
            "work": {"decode": True, "encode": False},
            "status": 0,
        }


async def test_stubborn_work_cannot_hold_the_process(tmp_path: Path) -> None:
    """A handler whose thread never ends: past the grace its event is free and the process ends all the same, with 0."""
    async with running(tmp_path, "stubborn") as service:
        await service.load()
        await service.start_work()
        service.child.send_signal(signal.SIGINT)
        assert (await service.hear("left"))["work"]["decode"]
        assert await service.exit_status() == 0


async def test_second_signal_ends_at_once(tmp_path: Path) -> None:
    """Whoever asks twice does not want to wait for the grace."""
    async with running(tmp_path, "deaf") as service:
        await service.load()
        await service.start_work()
        service.child.send_signal(signal.SIGTERM)
        await service.hear("told to drain")
        service.child.send_signal(signal.SIGINT)
        assert await service.exit_status() == 128 + signal.SIGINT
        assert "left" not in {told["what"] for told in service.told}


async def test_drain_route_answers_when_drained_and_the_process_stays(tmp_path: Path) -> None:
    """What a preStop hook calls: it returns when nothing runs, may be called twice, and SIGTERM then ends quickly."""
    async with running(tmp_path) as service:
        await service.load()
        await service.start_work()
        first, second = await asyncio.gather(service.http.get("/internal/drain"), service.http.post("/internal/drain"))
        assert [{"drained": True}] * 2 == [first.json(), second.json()]
        assert "draining" in (await service.http.get("/v2/health/ready")).text
        assert (await service.http.get("/v2/health/live")).status_code == 200
        assert (await service.predict(service.event)).status_code == 503
        assert service.child.returncode is None
        service.child.send_signal(signal.SIGTERM)
        assert (await service.hear("left"))["work"]["decode"]
        assert await service.exit_status() == 0


async def test_load_failure_ends_the_process_with_its_message(tmp_path: Path) -> None:
    """A damaged model folder: the status that says so, and the reason on stderr for who reads no logs."""
    async with running(tmp_path, loading="fails") as service:
        await service.command("loaded")
        assert os.EX_CONFIG == await service.exit_status()
        assert "decode: loading failed: The model's folder is incomplete or damaged. There is no transformer.\n" in (
            service.log
        )


async def test_sigterm_while_loading_exits_0(tmp_path: Path) -> None:
    """A process that is not needed any more does not load to the end first."""
    async with running(tmp_path) as service:
        service.child.send_signal(signal.SIGTERM)
        assert await service.exit_status() == 0


async def test_hung_stage_is_replaced(tmp_path: Path) -> None:
    """Without a sign of life the run is a counted failure, the event goes to others, and the process ends with 1."""
    async with running(tmp_path, "hung") as service:
        await service.load()
        await service.start_work()
        left = await service.hear("left")
        assert (left["state"], left["failures"], left["work"]["decode"]) == ("decoding", 1, True)
        assert await service.exit_status() == 1
        assert "stage_stalled" in service.log
