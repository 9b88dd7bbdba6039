"""The OpenAPI document against the door itself: whatever it lets a client send, the answer is one that it describes."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis import checks as every_check
from structlog.testing import capture_logs

from doors import JOBS, PROMPT, World
from vitascope.ingress.serve import CLOSE_S, serve_door
from vitascope.runtime.listener import open_listener

WAIT_S = 30.0
EXAMPLES = 12
ENDLESS = frozenset({"watchEvents", "createVideoSync"})
"""Of one the answer never ends; the other waits for a video, which nobody makes here."""
CHECKS = [
    every_check.not_a_server_error,
    every_check.status_code_conformance,
    every_check.content_type_conformance,
    every_check.response_headers_conformance,
    every_check.response_schema_conformance,
    every_check.unsupported_method,
]


def _list_operations() -> list[Any]:
    """Each with requests as the document describes them, and, where there is anything to send, with others."""
    paths = World().make_app().openapi()["paths"]
    named = [
        (path, method, operation["operationId"], bool(operation.get("parameters") or "requestBody" in operation))
        for path, operations in paths.items()
        for method, operation in operations.items()
        if operation["operationId"] not in ENDLESS
    ]
    right = [pytest.param(path, method, GenerationMode.POSITIVE, id=name) for path, method, name, _ in named]
    wrong = [
        pytest.param(path, method, GenerationMode.NEGATIVE, id=f"{name}, not as described")
        for path, method, name, takes_something in named
        if takes_something
    ]
    return right + wrong


OPERATIONS = _list_operations()


@pytest.fixture(scope="module")
def door() -> Iterator[dict[str, Any]]:
    """A door in a thread of its own: its `address`, and the ids of jobs that have `finished`."""
    started, stopping = threading.Event(), threading.Event()
    found: dict[str, Any] = {}

    async def serve() -> None:
        world, stop = World(), asyncio.Event()
        with open_listener("127.0.0.1", 0) as listener:
            serving = asyncio.create_task(serve_door(world.make_app(), listener, stop), name="door")
            found["address"] = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with httpx.AsyncClient(base_url=found["address"], timeout=WAIT_S) as client:
                ids = [(await client.post(JOBS, json=PROMPT)).json()["id"] for _ in range(len(OPERATIONS) + 1)]
            for job in ids[:-1]:  # one stays in the queue
                await world.finish(job)
            await world.keep_rows("default", "decode-default", "encode-default")
            found["finished"] = ids[:-1]
            started.set()
            await asyncio.to_thread(stopping.wait)
            stop.set()
            await asyncio.wait_for(serving, CLOSE_S + WAIT_S)

    with capture_logs():
        thread = threading.Thread(target=lambda: asyncio.run(serve()), name="door")
        thread.start()
        try:
            assert started.wait(WAIT_S)
            yield found
        finally:
            stopping.set()
            thread.join(CLOSE_S + WAIT_S)


@pytest.fixture(scope="module")
def document(door: dict[str, Any]) -> Any:
    """The document as the door gives it."""
    return schemathesis.openapi.from_url(f"{door['address']}/openapi.json", wait_for_schema=WAIT_S)


@pytest.mark.parametrize(("path", "method", "mode"), OPERATIONS)
def test_every_answer_is_one_that_the_document_describes(
    door: dict[str, Any], document: Any, path: str, method: str, mode: GenerationMode
) -> None:
    """Never 5xx; status, type, headers and body as described; 405 for what no route takes.

    Half of the requests are for a job that there is, each operation having one of its own.
    """
    own = door["finished"].pop()

    @given(case=document[path][method].as_strategy(generation_mode=mode), is_real=st.booleans())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def send(case: Any, is_real: bool) -> None:  # noqa: FBT001 (hypothesis passes by name)
        if is_real and "job" in case.path_parameters:
            case.path_parameters["job"] = own
        case.call_and_validate(checks=CHECKS, timeout=WAIT_S)

    send()
