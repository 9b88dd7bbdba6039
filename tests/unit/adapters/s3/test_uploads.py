"""Unfinished uploads as different servers list them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from minio.error import InvalidResponseError, S3Error
from urllib3 import HTTPResponse

from vitascope.adapters.s3.client import S3Client
from vitascope.adapters.s3.uploads import abort_upload, list_uploads
from vitascope.contracts.objects import ObjectClass
from vitascope.runtime.ports import UnfinishedUpload

UPLOAD = UnfinishedUpload("latents/ä + b", "id/1", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
ENTRY = "<Upload><Key>{key}</Key><UploadId>{id}</UploadId><Initiated>2026-01-02T03:04:05.000Z</Initiated></Upload>"
ERROR = "<Error><Code>{code}</Code><Message>m</Message></Error>"


class Answers:
    """Stands in for the pool of connections: gives prepared answers, and notes what was asked."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        self._answers: Iterator[tuple[int, str]] = iter(answers)
        self.asked: list[tuple[str, str]] = []

    def request(self, method: str, url: str) -> HTTPResponse:
        self.asked.append((method, url))
        status, body = next(self._answers)
        return HTTPResponse(body.encode(), headers={"Content-Type": "application/xml"}, status=status)

    def query(self, number: int) -> dict[str, str]:
        """What was asked for, without the signature."""
        found = parse_qs(urlsplit(self.asked[number][1]).query, keep_blank_values=True)
        return {name: values[0] for name, values in found.items() if not name.startswith("X-Amz-")}


def connect(answers: Answers, endpoint: str = "http://127.0.0.1:8333") -> S3Client:
    client = S3Client(endpoint, access_key="a", secret_key="b", bucket="bucket")
    client.http = answers  # type: ignore[assignment]  # all that is used of it is `request`
    return client


def page(*uploads: tuple[str, str], following: str = "") -> tuple[int, str]:
    entries = "".join(ENTRY.format(key=key, id=number) for key, number in uploads)
    truncated = "true" if following else "false"
    body = f"<IsTruncated>{truncated}</IsTruncated>{following}{entries}"
    return (
        200,
        f'<ListMultipartUploadsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{body}</ListMultipartUploadsResult>',
    )


def test_upload_is_read() -> None:
    """Key as it is, id as it is, time with its zone; other prefixes that a server shows unasked are left out."""
    answers = Answers(page((UPLOAD.key, UPLOAD.upload), ("outputs/a", "2")))
    assert (UPLOAD,) == list_uploads(connect(answers), ObjectClass.LATENTS)
    assert {"uploads": "", "prefix": "latents/", "max-uploads": "1000"} == answers.query(0)


def test_both_markers_are_sent_back() -> None:
    """Pages go on where the server says, also inside one key."""
    following = "<NextKeyMarker>latents/ä + b</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker>"
    answers = Answers(page((UPLOAD.key, "1"), following=following), page((UPLOAD.key, "2")))
    found = list_uploads(connect(answers), ObjectClass.LATENTS)
    assert ["1", "2"] == [upload.upload for upload in found]
    assert ("latents/ä + b", "1") == (answers.query(1)["key-marker"], answers.query(1)["upload-id-marker"])


def test_server_that_ignores_markers_is_not_asked_for_ever() -> None:
    """A page that brings nothing new is the last one."""
    same = page((UPLOAD.key, "1"), following="<NextUploadIdMarker>1</NextUploadIdMarker>")
    answers = Answers(same, same, same)
    assert 1 == len(list_uploads(connect(answers), ObjectClass.LATENTS))
    assert 2 == len(answers.asked)


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("http://127.0.0.1:8333", ("127.0.0.1:8333", "/bucket")),
        ("https://s3.amazonaws.com", ("bucket.s3.us-east-1.amazonaws.com", "/")),
    ],
    ids=["path", "virtual host"],
)
def test_bucket_is_addressed_as_the_client_does(endpoint: str, address: tuple[str, str]) -> None:
    """Some servers want the bucket in the path, others in the name of the host."""
    answers = Answers(page())
    list_uploads(connect(answers, endpoint), ObjectClass.LATENTS)
    url = urlsplit(answers.asked[0][1])
    assert address == (url.netloc, url.path)


def test_abort_names_key_and_upload() -> None:
    """The address is the object's."""
    answers = Answers((204, ""))
    abort_upload(connect(answers), UPLOAD)
    method, url = answers.asked[0]
    assert ("DELETE", "/bucket/latents/%C3%A4%20%2B%20b") == (method, urlsplit(url).path)
    assert {"uploadId": "id/1"} == answers.query(0)


def test_abort_of_a_gone_upload_is_no_error() -> None:
    """AWS says that there is none."""
    abort_upload(connect(Answers((404, ERROR.format(code="NoSuchUpload")))), UPLOAD)


def test_refusals_are_raised() -> None:
    """With the server's code, for `translating`."""
    refused = 403, ERROR.format(code="AccessDenied")
    with pytest.raises(S3Error, match="AccessDenied"):
        list_uploads(connect(Answers(refused)), ObjectClass.LATENTS)
    with pytest.raises(S3Error, match="AccessDenied"):
        abort_upload(connect(Answers(refused)), UPLOAD)


@pytest.mark.parametrize("answer", [(200, "no xml"), (502, "")], ids=["no document", "no answer"])
def test_answers_that_are_none_are_raised(answer: tuple[int, str]) -> None:
    """A proxy's page is no listing."""
    with pytest.raises(InvalidResponseError):
        list_uploads(connect(Answers(answer)), ObjectClass.LATENTS)
