"""Reading an object in pieces, going on where a connection broke."""

from collections.abc import Generator
from typing import Any

from minio.error import S3Error
from urllib3.exceptions import HTTPError

from vitascope.adapters.limits import PIECE_BYTES
from vitascope.adapters.s3.client import S3Client
from vitascope.contracts.failures import FailureCode, VitascopeError

READ_TRIES = 4
"""Connections that bring nothing more before it is given up; each that brought something starts the count anew."""


def read_pieces(client: S3Client, key: str, offset: int = 0, length: int | None = None) -> Generator[bytes, None, None]:
    """The bytes of a range, in pieces of at most `PIECE_BYTES`; beyond the object's end there are none.

    Blocks: for threads. Closing the generator closes the connection.

    Raises:
        VitascopeError: `object_corrupt`, the object was replaced while it was read.
        MinioException, urllib3.exceptions.HTTPError: what `translating` translates.
    """
    assert offset >= 0, "ranges start inside the object"
    assert length is None or length >= 0, "a range is not negative"
    first: dict[str, str] | None = None
    got, tries, wanted = 0, 0, length
    while wanted is None or got < wanted:
        try:
            response = _open(client, key, offset + got, None if length is None else length - got, etag=_etag(first))
            if response is None:
                return
            try:
                if first is None:
                    first = dict(response.headers)
                    wanted = int(response.headers["Content-Length"])
                while piece := response.read(PIECE_BYTES):
                    got, tries = got + len(piece), 0
                    yield piece
            finally:
                response.close()
                response.release_conn()
        except HTTPError:
            tries += 1
            if tries >= READ_TRIES:
                raise


def _open(client: S3Client, key: str, offset: int, length: int | None, *, etag: str | None) -> Any:
    """An open answer, or None beyond the object's end. Any: the client's library has no types."""
    try:
        return client.minio.get_object(
            client.bucket,
            key,
            offset=offset,
            length=length or 0,
            request_headers={"If-Match": etag} if etag else None,
        )
    except S3Error as error:
        if error.code == "InvalidRange":
            return None
        if error.code == "PreconditionFailed":
            detail = f"Object {key} was replaced while it was read."
            raise VitascopeError(FailureCode.OBJECT_CORRUPT, detail) from error
        raise


def _etag(first: dict[str, str] | None) -> str | None:
    return None if first is None else first.get("ETag")
