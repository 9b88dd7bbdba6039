"""Answers to what is no HTTP at all: a NUL in a header, a head without end. In the one error shape, too.

The server's own protocol refuses such bytes before any application sees them, with a line of plain text.
"""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.ingress.errors import make_error_response
from vitascope.ingress.headers import SECURITY_HEADERS

_DETAIL = "The request is not valid HTTP: a header has a character that is not allowed, or is too long."


def make_refusal() -> bytes:
    """The whole answer, after which the connection is closed."""
    response = make_error_response(VitascopeError(FailureCode.INVALID_REQUEST, _DETAIL))
    response.headers.update({**SECURITY_HEADERS, "connection": "close"})
    lines = [b"HTTP/1.1 400 Bad Request", *(name + b": " + value for name, value in response.raw_headers), b"", b""]
    return b"\r\n".join(lines) + bytes(response.body)


class _JsonRefusal:
    """The part of a uvicorn protocol that answers bytes which its parser refuses."""

    transport: asyncio.Transport

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's own text, which says less)
        """Answer, and close."""
        self.transport.write(make_refusal())
        self.transport.close()


class WireProtocol(_JsonRefusal, H11Protocol):
    """HTTP/1.1 with our refusal. Of the parsers that uvicorn knows, h11 alone bounds a request's head (64 KiB)."""
