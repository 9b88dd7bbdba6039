"""The KServe face of a stage process: health, readiness, metadata, metrics, and a `predict` that takes one event.

The engine behind it is the stage loop. `predict` puts the event on the stage's own work subject and answers with its
reference at once, so that no HTTP request lasts as long as a stage. Only this module imports kserve, and uvicorn,
which kserve's REST server is.
"""

import json
import logging
import socket
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import kserve
import uvicorn
from kserve.errors import InvalidInput, ModelNotFound, ModelNotReady, ServerNotReady
from kserve.model_server import app
from kserve.protocol.dataplane import DataPlane
from kserve.protocol.model_repository_extension import ModelRepositoryExtension
from kserve.protocol.rest.server import RESTServer
from pydantic import ValidationError

from vitascope import __version__
from vitascope.contracts import subjects
from vitascope.contracts.events import WorkItem
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.runtime.health import Health
from vitascope.runtime.ports import Bus, Clock, Ledger
from vitascope.runtime.stage_loop import StageLoop

HTTP_CLOSE_S = 3
"""So long a request in flight may hold up the end of the HTTP server; none of ours takes a second."""
_EVENT_INPUT, _REFERENCE_OUTPUT = "event", "reference"
_EXPECTED = (InvalidInput, ModelNotFound, ModelNotReady, NotImplementedError, ServerNotReady)


# kserve ships no types that hold, so every base class of its is Any to the type checker.
class StageModel(kserve.Model):  # type: ignore[misc]
    """One stage as a KServe model: `ready` once it is loaded, healthy while it takes work."""

    def __init__(self, name: str, health: Health, loop: StageLoop, *, bus: Bus, ledger: Ledger, clock: Clock) -> None:
        super().__init__(name)
        self.engine = True
        self.loop, self._health = loop, health
        self._bus, self._ledger, self._clock = bus, ledger, clock

    async def healthy(self) -> bool:
        """Whether it takes work at this moment."""
        return self._health.is_ready

    def load(self) -> bool:
        """Whether it is loaded: the process loads it, a request never does."""
        return self._health.is_loaded

    def get_input_types(self) -> list[dict[str, Any]]:
        """One JSON text: the data of a stage event."""
        return [{"name": _EVENT_INPUT, "datatype": "BYTES", "shape": [1]}]

    def get_output_types(self) -> list[dict[str, Any]]:
        """One JSON text: job, attempt, stage and message id."""
        return [{"name": _REFERENCE_OUTPUT, "datatype": "BYTES", "shape": [1]}]

    async def predict(
        self,
        payload: Any,
        headers: Mapping[str, str] | None = None,  # noqa: ARG002 (kserve calls it so)
        response_headers: dict[str, str] | None = None,  # noqa: ARG002 (as headers)
    ) -> Any:
        """Put one stage event on its way and answer with its reference.

        Accepts a v2 request with one BYTES element, v1 `{"instances": [event]}`, and an event itself, as kserve takes
        it out of a CloudEvent. A copy of an event that is already there changes nothing.

        Raises:
            InvalidInput: no event of this stage, or of a job that does not exist (400).
            ModelNotReady: the bus or the ledger cannot be reached (503).
        """
        asked = self._read(_find_event(payload))
        try:
            current = await self._ledger.get(asked.job)
            if current is None or current.record.request.tenant != asked.tenant:
                raise InvalidInput(f"The tenant {asked.tenant} has no job {asked.job}.")
            # Anew from its four fields: what else a caller sent does not travel.
            work = WorkItem(job=asked.job, tenant=asked.tenant, attempt=asked.attempt, stage=asked.stage)
            subject = subjects.work_subject(self.loop.stage, self.loop.pool, work.job, self.loop.group)
            await self._bus.publish_work(subject, work.to_event(self._clock.now()))
        except VitascopeError as error:
            raise ModelNotReady(self.name, str(error)) from error
        reference = work.model_dump(mode="json", include={"job", "attempt", "stage"}) | {"message_id": work.message_id}
        return _shape_answer(payload, self.name, reference)

    def _read(self, event: Any) -> WorkItem:
        try:
            work = WorkItem.model_validate(event)
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
            raise InvalidInput(f"This is no stage event: {faults}") from error
        if work.stage is not self.loop.stage:
            raise InvalidInput(f"This is an event of {work.stage}; this process does {self.loop.stage}.")
        return work


class StageServer(kserve.ModelServer):  # type: ignore[misc]
    """kserve's model server inside a running event loop, on one address, up before its model is loaded."""

    def __init__(self, model: StageModel, health: Health, drain: Callable[[], Awaitable[None]]) -> None:
        logging.getLogger("kserve").addHandler(logging.NullHandler())  # with no handler kserve sets up its own logs
        super().__init__(enable_grpc=False, enable_latency_logging=False, grace_period=HTTP_CLOSE_S, workers=1)
        self.dataplane = _StageDataPlane(self.registered_models, health, model.loop.stage)
        self.model_repository_extension = _ClosedRepository(self.registered_models)
        self.register_model(model)  # `start` refuses a model that is not ready
        self._drain = drain
        self._http: uvicorn.Server | None = None

    async def serve(self, listener: socket.socket) -> None:
        """Answers on a bound socket until `close`; one server a process, since kserve's application is a global."""
        rest = RESTServer(
            "kserve.model_server:app",
            self.dataplane,
            self.model_repository_extension,
            http_port=listener.getsockname()[1],
            grace_period=HTTP_CLOSE_S,
        )
        rest.create_application()
        # GET as well: a preStop hook of kind httpGet cannot POST.
        app.add_api_route("/internal/drain", self._answer_drain, methods=["GET", "POST"])
        rest.config.access_log = False
        _quieten_logs()
        self._http = _SignalFreeServer(rest.config)
        await self._http.serve(sockets=[listener])

    def close(self) -> None:
        """Ends `serve` within `HTTP_CLOSE_S`."""
        if self._http is not None:
            self._http.should_exit = True

    async def _answer_drain(self) -> dict[str, bool]:
        await self._drain()
        return {"drained": True}


class _SignalFreeServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to the process: the stage drains first, HTTP ends last."""
        yield


class _StageDataPlane(DataPlane):  # type: ignore[misc]
    """kserve's own is always live and always ready."""

    def __init__(self, registry: kserve.ModelRepository, health: Health, stage: Stage) -> None:
        super().__init__(model_registry=registry)
        self._health, self._stage = health, stage

    async def live(self) -> dict[str, str]:
        return {"status": "alive" if self._health.is_live else "stalled"}

    async def ready(self) -> bool:
        obstacle = self._health.compute_obstacle()
        if obstacle is not None:
            raise ServerNotReady(obstacle)
        return True

    async def model_ready(self, model_name: str, disable_predictor_health_check: bool = False) -> bool:  # noqa: FBT001, FBT002 (kserve's signature)
        is_ready: bool = await super().model_ready(model_name, disable_predictor_health_check)
        if not is_ready:
            raise ModelNotReady(model_name, self._health.compute_obstacle())
        return is_ready

    async def model_metadata(self, model_name: str) -> dict[str, Any]:
        metadata: dict[str, Any] = await super().model_metadata(model_name)
        return metadata | {"platform": f"vitascope_{self._stage}", "versions": [__version__]}

    def metadata(self) -> dict[str, Any]:
        return {"name": "vitascope", "version": __version__, "extensions": []}


class _ClosedRepository(ModelRepositoryExtension):  # type: ignore[misc]
    """Loading and unloading over HTTP is off: anybody on the network could take the model away (501)."""

    async def load(self, model_name: str) -> None:
        raise NotImplementedError(f"{model_name} is loaded by its process.")

    async def unload(self, model_name: str) -> None:
        raise NotImplementedError(f"{model_name} is unloaded by its process.")


def _find_event(payload: Any) -> Any:
    if isinstance(payload, kserve.InferRequest):
        return _find_v2_event(payload)
    if not isinstance(payload, dict):
        raise InvalidInput("The body must be JSON: a stage event, or one in `instances`.")
    if "instances" in payload:
        instances = payload["instances"]
        if not isinstance(instances, list) or len(instances) != 1:
            raise InvalidInput("`instances` must hold exactly one stage event.")
        return instances[0]
    # kserve unpacks a CloudEvent in structured mode only if it has a time, which CloudEvents 1.0 leaves optional.
    return payload["data"] if "specversion" in payload and "data" in payload else payload


def _find_v2_event(request: Any) -> Any:
    try:
        elements = [element for tensor in request.inputs for element in tensor.as_numpy().flatten()]
        if len(elements) != 1 or request.inputs[0].datatype != "BYTES":
            raise InvalidInput("There must be one input of datatype BYTES and shape [1].")
        return json.loads(elements[0])
    except (TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InvalidInput("The input must be the JSON text of a stage event.") from error
    except ValueError as error:
        raise InvalidInput(str(error)) from error


def _shape_answer(payload: Any, name: str, reference: dict[str, Any]) -> Any:
    if isinstance(payload, kserve.InferRequest):
        text = json.dumps(reference)
        output = kserve.InferOutput(name=_REFERENCE_OUTPUT, shape=[1], datatype="BYTES", data=[text])
        answer_id = payload.id or reference["message_id"]
        return kserve.InferResponse(response_id=answer_id, model_name=name, infer_outputs=[output])
    return {"predictions": [reference]} if "instances" in payload else reference


def _quieten_logs() -> None:
    """Access lines off; of kserve's lines those about requests that were at fault themselves, and small talk."""
    access = logging.getLogger("uvicorn.access")
    access.handlers, access.propagate = [], False
    logging.getLogger("kserve").setLevel(logging.WARNING)
    logging.getLogger("kserve").addFilter(_is_unexpected)
    warnings.filterwarnings("ignore", message="ORJSONResponse is deprecated")  # how kserve uses FastAPI is not ours


def _is_unexpected(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], _EXPECTED))
