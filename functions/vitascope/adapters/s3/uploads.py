"""Unfinished uploads: S3's own calls, since the MinIO client has none for them. Blocking: for threads.

The addresses and signatures are the client's, so they hold for every server that it can talk to.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import SplitResult, quote, urlencode, urlsplit
from xml.etree import ElementTree as ET

from minio.error import InvalidResponseError, S3Error
from minio.signer import presign_v4

from vitascope.adapters.s3.client import S3Client
from vitascope.contracts.objects import ObjectClass
from vitascope.runtime.ports import UnfinishedUpload

PAGE = 1000
UPLOADS_MAX = 10_000
"""Of one class in one listing: whoever ends these finds the rest the next time."""
SIGNED_S = 900
"""Life of a signature, as long as S3's own: the clocks may differ by as much."""
_SPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
_ANY = "x"  # stands for an object in an address that is then cut off before it


def list_uploads(client: S3Client, kind: ObjectClass) -> tuple[UnfinishedUpload, ...]:
    """The unfinished uploads of a class, at most about `UPLOADS_MAX`.

    Servers differ in the markers that they give and take (SeaweedFS knows no key marker), so what they give is sent
    back, and a page that brings nothing new is the last one.

    Raises:
        MinioException, urllib3.exceptions.HTTPError: what `translating` translates.
    """
    prefix = f"{kind}/"
    query = {"uploads": "", "prefix": prefix, "max-uploads": str(PAGE)}
    found: dict[tuple[str, str], UnfinishedUpload] = {}
    while len(found) < UPLOADS_MAX:
        page = _parse(_request(client, "GET", _sign_listing(client, query)))
        known = len(found)
        found.update(
            {(upload.key, upload.upload): upload for upload in _uploads(page) if upload.key.startswith(prefix)}
        )
        markers = {
            "key-marker": _text(page, "NextKeyMarker"),
            "upload-id-marker": _text(page, "NextUploadIdMarker"),
        }
        if _text(page, "IsTruncated") != "true" or len(found) == known:
            break
        query |= {name: marker for name, marker in markers.items() if marker}
    return tuple(found.values())


def abort_upload(client: S3Client, upload: UnfinishedUpload) -> None:
    """End an upload; one that is gone does not matter.

    Raises:
        MinioException, urllib3.exceptions.HTTPError: what `translating` translates.
    """
    url = client.minio.get_presigned_url(
        "DELETE",
        client.bucket,
        upload.key,
        expires=timedelta(seconds=SIGNED_S),
        extra_query_params={"uploadId": upload.upload},
    )
    try:
        _request(client, "DELETE", url)
    except S3Error as error:
        if error.code != "NoSuchUpload":
            raise


def _sign_listing(client: S3Client, query: Mapping[str, str]) -> str:
    """The address of the bucket, with that query and a signature."""
    address = urlsplit(client.minio.get_presigned_url("GET", client.bucket, _ANY))
    path = address.path.removesuffix(f"/{_ANY}") or "/"
    url = SplitResult(address.scheme, address.netloc, path, urlencode(query, quote_via=quote, safe=""), "")
    signed = presign_v4(
        method="GET",
        url=url,
        region=client.region,
        credentials=client.credentials,
        date=datetime.now(UTC),
        expires=SIGNED_S,
    )
    return str(signed.geturl())


def _request(client: S3Client, method: str, url: str) -> Any:
    """The answer, if it is a good one. Any: the client's library has no types."""
    answer = client.http.request(method, url)
    if answer.status in {HTTPStatus.OK, HTTPStatus.NO_CONTENT}:
        return answer
    if "xml" in answer.headers.get("Content-Type", "") and answer.data:
        raise S3Error.fromxml(answer)
    raise InvalidResponseError(answer.status, answer.headers.get("Content-Type"), None)


def _parse(answer: Any) -> ET.Element:
    """The document of an answer. Any: the client's library has no types."""
    try:
        return ET.fromstring(answer.data)  # noqa: S314 (as trusted as the objects of the same server)
    except ET.ParseError as error:
        raise InvalidResponseError(answer.status, answer.headers.get("Content-Type"), str(error)) from error


def _uploads(page: ET.Element) -> Iterator[UnfinishedUpload]:
    for upload in page.iter(f"{_SPACE}Upload"):
        begun = datetime.fromisoformat(_text(upload, "Initiated")).astimezone(UTC)
        yield UnfinishedUpload(_text(upload, "Key"), _text(upload, "UploadId"), begun)


def _text(element: ET.Element, name: str) -> str:
    return element.findtext(f"{_SPACE}{name}") or ""
