"""Endpoints, rules and errors of the S3 adapter, without a server."""

import errno
from datetime import timedelta

import pytest
from minio.error import InvalidResponseError, S3Error, ServerError
from urllib3 import HTTPResponse
from urllib3.exceptions import HTTPError, ProtocolError

from vitascope.adapters.s3.bucket import KeepRule, compute_dropped, plan_rules
from vitascope.adapters.s3.client import S3Client, parse_endpoint
from vitascope.adapters.s3.errors import translating
from vitascope.contracts.expiry import Retention
from vitascope.contracts.failures import FailureCode, VitascopeError


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("http://127.0.0.1:8333", ("127.0.0.1:8333", False)),
        ("https://media.example.com/", ("media.example.com", True)),
    ],
    ids=["http", "https"],
)
def test_endpoint_is_host_and_scheme(url: str, parsed: tuple[str, bool]) -> None:
    """Nothing else is in it."""
    assert parsed == parse_endpoint("X", url)


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8333", "ftp://h", "http://", "https://h/media", "https://h?x=1", "https://u:p@h"],
    ids=["no scheme", "other scheme", "no host", "path", "query", "credentials"],
)
def test_bad_public_endpoint_names_its_setting(url: str) -> None:
    """A prefix cannot work with signatures: the process ends at start and says why."""
    with pytest.raises(ValueError, match="VITASCOPE_S3__PUBLIC_ENDPOINT"):
        S3Client("http://h:1", access_key="a", secret_key="b", bucket="bucket", public_endpoint=url)


@pytest.mark.parametrize(
    ("files_days", "record_days", "outputs", "waiting"),
    [(7, 30, 8, 38), (0.5, 0.25, 2, 2), (1.0, 1.0, 2, 3), (0.001, 2, 2, 4)],
    ids=["as set", "parts of a day", "whole days", "a moment"],
)
def test_every_class_has_its_rule(files_days: float, record_days: float, outputs: int, waiting: int) -> None:
    """Each a day after the janitor, in whole days; what a job needs while it waits is kept longest."""
    retention = Retention(files=timedelta(days=files_days), record=timedelta(days=record_days))
    days = {rule.prefix: rule.days for rule in plan_rules(retention)}
    scratch = dict.fromkeys(("checkpoints/", "latents/", "frames/"), waiting)
    assert {"records/": waiting, "inputs/": waiting, "outputs/": outputs, **scratch} == days


def test_what_the_server_dropped_is_said() -> None:
    """A rule that is missing, and one that lost its half."""
    wanted = (KeepRule("a", "a/", 2), KeepRule("b", "b/", 7))
    present = (KeepRule("b", "b/", 7, abort_days=None),)
    assert (
        "a/ expires after 2 days",
        "a/ unfinished uploads end after 1 days",
        "b/ unfinished uploads end after 1 days",
    ) == compute_dropped(wanted, present)
    assert () == compute_dropped(wanted, wanted)


def s3_error(code: str, message: str = "", status: int = 400) -> S3Error:
    return S3Error(HTTPResponse(status=status), code, message, "r", "i", "h")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (s3_error("NoSuchKey", status=404), FailureCode.OBJECT_MISSING),
        (s3_error("NoSuchBucket", status=404), FailureCode.STORE_UNAVAILABLE),
        (s3_error("XMinioStorageFull", status=507), FailureCode.STORE_FULL),
        (s3_error("InternalError", "assign volume: no free volumes left!", 500), FailureCode.STORE_FULL),
        (s3_error("InternalError", "try again", 500), FailureCode.STORE_UNAVAILABLE),
        (s3_error("BadDigest"), FailureCode.OBJECT_CORRUPT),
        (s3_error("SignatureDoesNotMatch", status=403), FailureCode.STORE_UNAVAILABLE),
        (ServerError("status 507", 507), FailureCode.STORE_FULL),
        (ServerError("status 502", 502), FailureCode.STORE_UNAVAILABLE),
        (InvalidResponseError(507, "text/html", "x"), FailureCode.STORE_FULL),
        (InvalidResponseError(502, "text/html", "bad gateway"), FailureCode.STORE_UNAVAILABLE),
        (ProtocolError("broken"), FailureCode.STORE_UNAVAILABLE),
        (OSError(errno.ENOSPC, "no space"), FailureCode.STORE_FULL),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_become_ours(error: HTTPError | Exception, code: FailureCode) -> None:
    """Each has its code and keeps its cause."""
    with pytest.raises(VitascopeError) as caught, translating("http://h", "key"):
        raise error
    assert (code, error) == (caught.value.code, caught.value.__cause__)


def test_other_errors_of_the_machine_stay() -> None:
    """A file of ours that is not there is our caller's mistake, not the store's."""
    with pytest.raises(FileNotFoundError), translating("http://h", "key"):
        raise FileNotFoundError(errno.ENOENT, "no file")
