"""Read a request's body: of the right type, and never more of it than is allowed."""

import re
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from vitascope.admission import parse_body
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.ingress.errors import DoorError

_JSON_TYPE = re.compile(r'application/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?', re.IGNORECASE)
ModelT = TypeVar("ModelT", bound=BaseModel)
_CLOSE = {"connection": "close"}  # the rest of the body is not read, so the connection cannot be used again


async def read_json_bytes(request: Request, max_bytes: int) -> bytes:
    """The body of a JSON request.

    Raises:
        VitascopeError: `unsupported_media_type`; `body_too_large`, as soon as that is known.
    """
    content_type = request.headers.get("content-type", "")
    if _JSON_TYPE.fullmatch(content_type) is None:
        raise VitascopeError(FailureCode.UNSUPPORTED_MEDIA_TYPE, param="Content-Type")
    return await read_bytes(request, max_bytes)


async def read_bytes(request: Request, max_bytes: int) -> bytes:
    """The body of a request.

    Raises:
        VitascopeError: `unsupported_media_type`, it is encoded; `body_too_large`, as soon as that is known.
    """
    if request.headers.get("content-encoding", "identity") != "identity":
        detail = "A Content-Encoding is not taken."
        raise VitascopeError(FailureCode.UNSUPPORTED_MEDIA_TYPE, detail, param="Content-Encoding")
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > max_bytes:
        raise _too_large(max_bytes)
    content = bytearray()
    try:
        async for piece in request.stream():
            if len(content) + len(piece) > max_bytes:
                raise _too_large(max_bytes)
            content += piece
    except ClientDisconnect as error:  # nobody will read the answer
        raise VitascopeError(FailureCode.INVALID_JSON, "The body broke off.") from error
    return bytes(content)


async def read_model(request: Request, max_bytes: int, model: type[ModelT]) -> ModelT:
    """The body of a JSON request, as an object with the fields of a model that forbids any others.

    Raises:
        VitascopeError: as `read_json_bytes` and `parse_body`; `unknown_field` and `invalid_request` with the field.
    """
    body = parse_body(await read_json_bytes(request, max_bytes))
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        param = ascii(".".join(str(part) for part in first["loc"])[:64])[1:-1] or None
        code = FailureCode.UNKNOWN_FIELD if first["type"] == "extra_forbidden" else FailureCode.INVALID_REQUEST
        raise VitascopeError(code, f"{param or 'The body'}: {first['msg']}.", param=param) from error


def _too_large(max_bytes: int) -> DoorError:
    return DoorError(FailureCode.BODY_TOO_LARGE, f"The limit is {max_bytes} bytes.", headers=_CLOSE)
