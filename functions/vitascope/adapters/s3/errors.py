"""What goes wrong in the object store, in our words."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from minio.error import InvalidResponseError, MinioException, S3Error, ServerError
from urllib3.exceptions import HTTPError

from vitascope.contracts.failures import FailureCode, VitascopeError

_MISSING = frozenset({"NoSuchKey", "NoSuchVersion"})
_FULL = frozenset({"XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded", "InsufficientStorage"})
_FULL_WORDS = ("no free volumes", "no writable volumes", "no space left", "disk full", "storage backend has reached")
"""How servers that have no code of their own for it say it (SeaweedFS: an internal error with these words)."""
_CORRUPT = frozenset({"BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "IncompleteBody"})
_KEYS = frozenset({"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "RequestTimeTooSkewed"})


@contextmanager
def translating(endpoint: str, key: str) -> Iterator[None]:
    """Turn the errors of the client's library, and of a full disk, into ours; the cause is kept."""
    try:
        yield
    except S3Error as error:
        raise _from_answer(error, endpoint, key) from error
    except (InvalidResponseError, ServerError) as error:
        status = getattr(error, "status_code", getattr(error, "_code", 0))
        full = status == HTTPStatus.INSUFFICIENT_STORAGE or _says_full(str(error))
        code = FailureCode.STORE_FULL if full else FailureCode.STORE_UNAVAILABLE
        raise VitascopeError(code, f"{endpoint} answered {status} for {key}.") from error
    except (HTTPError, MinioException) as error:
        detail = f"No answer from {endpoint} for {key} ({type(error).__name__}). Start it, or correct VITASCOPE_S3__*."
        raise VitascopeError(FailureCode.STORE_UNAVAILABLE, detail) from error
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise VitascopeError(FailureCode.STORE_FULL, f"No room on this machine's disk for {key}.") from error
        raise


def _from_answer(error: S3Error, endpoint: str, key: str) -> VitascopeError:
    code, said = str(error.code), f"{endpoint} answered {error.code} for {key}."
    if code in _MISSING:
        return VitascopeError(FailureCode.OBJECT_MISSING, f"There is no object {key}.")
    if code in _FULL or error.response.status == HTTPStatus.INSUFFICIENT_STORAGE or _says_full(str(error.message)):
        return VitascopeError(FailureCode.STORE_FULL, said)
    if code in _CORRUPT:
        return VitascopeError(FailureCode.OBJECT_CORRUPT, said)
    if code == "NoSuchBucket":
        said += " The bucket is missing: `vitascope up` and the scheduler create it."
    if code in _KEYS:
        said += " Check VITASCOPE_S3__ACCESS_KEY, VITASCOPE_S3__SECRET_KEY and the clock."
    return VitascopeError(FailureCode.STORE_UNAVAILABLE, said)


def _says_full(message: str) -> bool:
    return any(words in message.lower() for words in _FULL_WORDS)
