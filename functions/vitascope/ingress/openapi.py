"""The parts of the OpenAPI document that FastAPI cannot read off the handlers: examples, streams, errors."""

from typing import Any

from fastapi import FastAPI

from vitascope.ingress.errors import ErrorView
from vitascope.ingress.request_schema import REQUEST_EXAMPLES, REQUEST_SCHEMA, Schema
from vitascope.ingress.views import EXAMPLE_JOB, EXAMPLE_RETRY

SUBMIT_EXTRA: Schema = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": REQUEST_SCHEMA, "examples": REQUEST_EXAMPLES}},
    },
}

RETRY_ANSWER: dict[int | str, dict[str, Any]] = {
    202: {
        "description": "The new job",
        "headers": {
            "Location": {"description": "the new job's address", "schema": {"type": "string"}},
            "Idempotency-Replayed": {
                "description": "`true` if an earlier request made the job",
                "schema": {"type": "string"},
            },
        },
        "content": {"application/json": {"example": EXAMPLE_RETRY}},
    },
}

STREAM_EXAMPLE = """id: 12
event: status
data: {"id": "vj_01KDVDNA00W52FRFC30J36F36P", "status": "running", "attempt": 1, "stage": "denoise"}

event: progress
data: {"id": "vj_01KDVDNA00W52FRFC30J36F36P", "attempt": 1, "stage": "denoise", "step": 3, "steps": 20}

"""

EVENT_SCHEMA: Schema = {
    "type": "object",
    "description": "one event of the stream",
    "required": ["event", "data"],
    "properties": {
        "event": {"type": "string", "enum": ["status", "progress", "resync"]},
        "id": {"type": "string", "pattern": "^[0-9]+$", "description": "what to send as `Last-Event-ID`"},
        "data": {"type": "string", "contentMediaType": "application/json"},
        "retry": {"type": "integer", "description": "milliseconds to wait before coming back"},
    },
}
_MEANINGS = {
    400: "A field is wrong; `param` names it",
    401: "No API key, or a wrong one",
    403: "The API key does not allow this",
    404: "There is no such job or model",
    409: "The job's state, or an earlier use of the key, forbids it",
    410: "The result has expired",
    413: "The body is too large",
    415: "The body is in no notation that the route takes",
    416: "The range is past the end of the file",
    422: "The video failed and has no file",
    429: "The queue is full, a quota is used up, or requests come too fast; `Retry-After` says when to try again",
    504: "The video was not ready within the time limit",
    503: "NATS or the object store cannot be reached; `Retry-After` says when to try again",
}


class DescribedApi(FastAPI):
    """An application whose OpenAPI document has whole examples."""

    def openapi(self) -> Schema:
        """The document; made once."""
        document: Schema = super().openapi()
        document["components"]["schemas"]["JobView"]["examples"] = [EXAMPLE_JOB]
        return document


def describe_stream(description: str) -> dict[int | str, dict[str, Any]]:
    """The answer of a route that streams events, for its `responses`."""
    content = {"text/event-stream": {"schema": EVENT_SCHEMA, "example": STREAM_EXAMPLE}}
    return {200: {"description": description, "content": content}}


def describe_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error answers of a route, for its `responses`; 401 and 503 may come from each."""
    described: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorView, "description": _MEANINGS[status]} for status in sorted({*statuses, 401, 503})
    }
    return described | {"default": {"model": ErrorView, "description": "Any other error"}}
