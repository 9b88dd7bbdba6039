"""One error shape for everything: `{"error": {"message", "type", "param", "code"}}`."""

import uuid
from collections.abc import Mapping
from typing import NoReturn

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field, JsonValue
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from vitascope.contracts.failures import FAILURES, FailureCode, VitascopeError
from vitascope.contracts.frozen import Frozen
from vitascope.ingress.headers import SECURITY_HEADERS

STATUS: Mapping[FailureCode, int] = {
    FailureCode.INVALID_REQUEST: 400,
    FailureCode.INVALID_JSON: 400,
    FailureCode.UNKNOWN_FIELD: 400,
    FailureCode.SHAPE_NOT_ALLOWED: 400,
    FailureCode.CAPABILITY_MISSING: 400,
    FailureCode.PROMPT_REFUSED: 400,
    FailureCode.ADDRESS_NOT_ALLOWED: 400,
    FailureCode.FETCH_FAILED: 400,
    FailureCode.MEDIA_INVALID: 400,
    FailureCode.UNAUTHENTICATED: 401,
    FailureCode.FORBIDDEN: 403,
    FailureCode.MODEL_NOT_FOUND: 404,
    FailureCode.NOT_FOUND: 404,
    FailureCode.METHOD_NOT_ALLOWED: 405,
    FailureCode.IDEMPOTENCY_CONFLICT: 409,
    FailureCode.ALREADY_EXISTS: 409,
    FailureCode.NOT_CANCELLABLE: 409,
    FailureCode.NOT_READY: 409,
    FailureCode.NOT_RETRYABLE: 409,
    FailureCode.NOT_PREEMPTABLE: 409,
    FailureCode.CONTENT_EXPIRED: 410,
    FailureCode.BODY_TOO_LARGE: 413,
    FailureCode.MEDIA_TOO_LARGE: 413,
    FailureCode.UNSUPPORTED_MEDIA_TYPE: 415,
    FailureCode.QUEUE_FULL: 429,
    FailureCode.QUOTA_EXCEEDED: 429,
    FailureCode.RATE_LIMITED: 429,
    FailureCode.INTERNAL_ERROR: 500,
    FailureCode.SCREEN_UNAVAILABLE: 503,
    FailureCode.SERVICE_UNAVAILABLE: 503,
    FailureCode.SYNC_TIMED_OUT: 504,
}
"""Every code that a client can meet as an HTTP error; the rest stands in job records only."""

RETRY_AFTER_S: Mapping[FailureCode, int] = {
    FailureCode.QUEUE_FULL: 30,
    FailureCode.QUOTA_EXCEEDED: 60,
    FailureCode.RATE_LIMITED: 1,
    FailureCode.SCREEN_UNAVAILABLE: 5,
    FailureCode.SERVICE_UNAVAILABLE: 5,
}
"""What `Retry-After` says: about as long as a place in the queue, and a restart of a server, take."""

MAX_PARAM_CHARS = 64
"""How much of an unknown parameter's name an answer repeats."""

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_OUTAGES = frozenset({FailureCode.BUS_UNAVAILABLE, FailureCode.STORE_UNAVAILABLE, FailureCode.STORE_FULL})
_BY_STATUS = {
    404: FailureCode.NOT_FOUND,
    405: FailureCode.METHOD_NOT_ALLOWED,
    413: FailureCode.BODY_TOO_LARGE,
    415: FailureCode.UNSUPPORTED_MEDIA_TYPE,
}
log = structlog.get_logger(__name__)


class ErrorBody(Frozen):
    """What went wrong."""

    message: str = Field(description="a sentence for people")
    type: str = Field(description="the class of the error, as in the OpenAI API")
    param: str | None = Field(description="the field or header at fault, as the client wrote it")
    code: FailureCode = Field(description="a stable word for programs")


_EXAMPLE: JsonValue = {
    "error": {
        "message": "A field of the request is missing or out of range. steps must be a whole number from 1 to 200.",
        "type": "invalid_request_error",
        "param": "steps",
        "code": "invalid_request",
    },
}


class ErrorView(Frozen):
    """The body of every answer that is no success."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    error: ErrorBody


class DoorError(VitascopeError):
    """An error whose HTTP status or headers differ from what its code usually has."""

    def __init__(
        self,
        code: FailureCode,
        detail: str = "",
        *,
        param: str | None = None,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code, detail, param=param)
        self.status = STATUS[code] if status is None else status
        self.headers = dict(headers or {})


def make_error_body(code: FailureCode, message: str, *, param: str | None = None, status: int) -> ErrorBody:
    """The body of an error answer."""
    usual = "server_error" if status >= STATUS[FailureCode.INTERNAL_ERROR] else "invalid_request_error"
    return ErrorBody(message=message, type=_TYPES.get(status, usual), param=param, code=code)


def make_error_response(error: VitascopeError) -> JSONResponse:
    """The answer to a request that failed with one of our errors.

    An outage of NATS or of the store is `service_unavailable` to a client, with the sentence that says which.
    """
    code, message = error.code, str(error)
    if code in _OUTAGES:
        code, message = FailureCode.SERVICE_UNAVAILABLE, FAILURES[code].sentence
        message = f"{message} {FAILURES[FailureCode.SERVICE_UNAVAILABLE].sentence}"
    if code not in STATUS:
        code, message = FailureCode.INTERNAL_ERROR, FAILURES[FailureCode.INTERNAL_ERROR].sentence
    status = error.status if isinstance(error, DoorError) else STATUS[code]
    headers = dict(error.headers) if isinstance(error, DoorError) else {}
    if code in RETRY_AFTER_S:
        headers.setdefault("retry-after", str(RETRY_AFTER_S[code]))
    if code is FailureCode.UNAUTHENTICATED:
        headers.setdefault("www-authenticate", 'Bearer realm="vitascope"')
    view = ErrorView(error=make_error_body(code, message, param=error.param, status=status))
    return JSONResponse(view.model_dump(mode="json"), status_code=status, headers=headers)


def install_error_handlers(app: FastAPI) -> None:
    """Have every kind of failure answered in the one shape."""

    @app.exception_handler(VitascopeError)
    async def handle_ours(request: Request, error: VitascopeError) -> JSONResponse:
        if error.code in _OUTAGES or error.code not in STATUS:
            log.warning("request failed", path=request.url.path, code=error.code, error=str(error))
        return make_error_response(error)

    @app.exception_handler(HTTPException)
    async def handle_http(request: Request, error: HTTPException) -> JSONResponse:
        code = _BY_STATUS.get(error.status_code, FailureCode.INVALID_REQUEST)
        detail, headers = "", {name.lower(): value for name, value in (error.headers or {}).items()}
        if code is FailureCode.METHOD_NOT_ALLOWED:
            headers["allow"] = _list_methods(app, request.url.path) or headers.get("allow", "")
            detail = f"It takes {headers['allow']}."
        return make_error_response(DoorError(code, detail, status=error.status_code, headers=headers))

    @app.exception_handler(RequestValidationError)
    async def handle_parameter(_request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        param = next((part for part in first["loc"][1:] if isinstance(part, str)), "request")  # after "query" or so
        if first["type"] == "extra_forbidden":
            param = ascii(param[:MAX_PARAM_CHARS])[1:-1]  # a name of the client's own, as a message may repeat it
            return make_error_response(VitascopeError(FailureCode.UNKNOWN_FIELD, f"It is {param}.", param=param))
        return make_error_response(
            VitascopeError(FailureCode.INVALID_REQUEST, f"{param}: {first['msg']}.", param=param)
        )

    @app.exception_handler(Exception)
    async def handle_unexpected(request: Request, error: Exception) -> JSONResponse:
        """Answer; the server raises the error again once the answer is out, so that it is seen there too."""
        error_id = uuid.uuid4().hex
        log.error("unexpected error", error_id=error_id, path=request.url.path, exc_info=error)
        response = make_error_response(VitascopeError(FailureCode.INTERNAL_ERROR, f"Its number is {error_id}."))
        response.headers.update(SECURITY_HEADERS)  # this answer leaves outside of every middleware
        return response


def _list_methods(app: FastAPI, path: str) -> str:
    """The methods that an address takes, as the service's own description has them; a route knows only its own."""
    operations = (item for pattern, item in app.openapi()["paths"].items() if compile_path(pattern)[0].match(path))
    return ", ".join(sorted({method.upper() for operation in operations for method in operation}))


def raise_not_found(what: str) -> NoReturn:
    """Raise `not_found`."""
    raise VitascopeError(FailureCode.NOT_FOUND, what)
