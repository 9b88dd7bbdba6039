"""Failure codes: each with its kind and the sentence that a user reads."""

from dataclasses import dataclass
from enum import StrEnum

from vitascope.contracts.frozen import Stored


class FailureKind(StrEnum):
    """What may follow a failure."""

    RETRYABLE = "retryable"
    """The same work may succeed if it is tried again."""
    TERMINAL = "terminal"
    """The same work would fail again."""
    REFUSED = "refused"
    """Turned down before any GPU time was spent."""
    WITHHELD = "withheld"
    """Finished, but the output screen keeps the result back."""


class FailureCode(StrEnum):
    """Stable words that programs may compare; `FAILURES` says what each means."""

    INVALID_REQUEST = "invalid_request"
    INVALID_JSON = "invalid_json"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    BODY_TOO_LARGE = "body_too_large"
    UNKNOWN_FIELD = "unknown_field"
    MODEL_NOT_FOUND = "model_not_found"
    SHAPE_NOT_ALLOWED = "shape_not_allowed"
    CAPABILITY_MISSING = "capability_missing"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_CANCELLABLE = "not_cancellable"
    NOT_READY = "not_ready"
    NOT_RETRYABLE = "not_retryable"
    NOT_PREEMPTABLE = "not_preemptable"
    CONTENT_EXPIRED = "content_expired"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    ALREADY_EXISTS = "already_exists"
    QUEUE_FULL = "queue_full"
    QUOTA_EXCEEDED = "quota_exceeded"
    RATE_LIMITED = "rate_limited"
    PROMPT_REFUSED = "prompt_refused"
    SCREEN_UNAVAILABLE = "screen_unavailable"
    ADDRESS_NOT_ALLOWED = "address_not_allowed"
    FETCH_FAILED = "fetch_failed"
    MEDIA_INVALID = "media_invalid"
    MEDIA_TOO_LARGE = "media_too_large"
    SYNC_TIMED_OUT = "sync_timed_out"
    SERVICE_UNAVAILABLE = "service_unavailable"
    INTERNAL_ERROR = "internal_error"
    MODEL_FOLDER_INVALID = "model_folder_invalid"
    GROUP_LOST = "group_lost"
    START_DEADLINE_PASSED = "start_deadline_passed"
    STAGE_STALLED = "stage_stalled"
    STAGE_TIMED_OUT = "stage_timed_out"
    REQUEST_UNFIT = "request_unfit"
    DENOISE_FAILED = "denoise_failed"
    DENOISE_OUT_OF_MEMORY = "denoise_out_of_memory"
    DECODE_FAILED = "decode_failed"
    DECODE_OUT_OF_MEMORY = "decode_out_of_memory"
    ENCODE_FAILED = "encode_failed"
    VERIFICATION_FAILED = "verification_failed"
    BUS_UNAVAILABLE = "bus_unavailable"
    STORE_UNAVAILABLE = "store_unavailable"
    STORE_FULL = "store_full"
    OBJECT_CORRUPT = "object_corrupt"
    OBJECT_MISSING = "object_missing"
    OUTPUT_WITHHELD = "output_withheld"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class FailureRow:
    """Kind of a failure and the sentence that a user reads."""

    kind: FailureKind
    sentence: str


_RETRYABLE, _TERMINAL, _REFUSED = FailureKind.RETRYABLE, FailureKind.TERMINAL, FailureKind.REFUSED

FAILURES: dict[FailureCode, FailureRow] = {
    FailureCode.INVALID_REQUEST: FailureRow(_REFUSED, "A field of the request is missing or out of range."),
    FailureCode.INVALID_JSON: FailureRow(_REFUSED, "The body is not a JSON object."),
    FailureCode.UNSUPPORTED_MEDIA_TYPE: FailureRow(_REFUSED, "The body must be sent as application/json."),
    FailureCode.BODY_TOO_LARGE: FailureRow(_REFUSED, "The body is larger than this service takes."),
    FailureCode.UNKNOWN_FIELD: FailureRow(_REFUSED, "The request has a field that this service does not know."),
    FailureCode.MODEL_NOT_FOUND: FailureRow(_REFUSED, "This service has no model of that name."),
    FailureCode.SHAPE_NOT_ALLOWED: FailureRow(_REFUSED, "The model does not offer that size and frame count."),
    FailureCode.CAPABILITY_MISSING: FailureRow(_REFUSED, "The model cannot do what the request asks for."),
    FailureCode.IDEMPOTENCY_CONFLICT: FailureRow(
        _REFUSED,
        "The Idempotency-Key was used before with another body; send a new key.",
    ),
    FailureCode.NOT_FOUND: FailureRow(_REFUSED, "There is nothing here under that name."),
    FailureCode.METHOD_NOT_ALLOWED: FailureRow(_REFUSED, "This address does not take that method."),
    FailureCode.NOT_CANCELLABLE: FailureRow(_REFUSED, "The job has already ended and cannot be cancelled."),
    FailureCode.NOT_READY: FailureRow(_REFUSED, "The job has no result yet; ask again when it has succeeded."),
    FailureCode.NOT_RETRYABLE: FailureRow(_REFUSED, "Only a failed job can be tried again."),
    FailureCode.NOT_PREEMPTABLE: FailureRow(_REFUSED, "Only a job that is being denoised can be preempted."),
    FailureCode.CONTENT_EXPIRED: FailureRow(_REFUSED, "The result has expired and its file is gone."),
    FailureCode.UNAUTHENTICATED: FailureRow(_REFUSED, "The API key is missing or not valid."),
    FailureCode.FORBIDDEN: FailureRow(_REFUSED, "The API key does not allow this."),
    FailureCode.ALREADY_EXISTS: FailureRow(_REFUSED, "There is one of that name already."),
    FailureCode.QUEUE_FULL: FailureRow(_REFUSED, "The queue is full; send the request again later."),
    FailureCode.QUOTA_EXCEEDED: FailureRow(_REFUSED, "The tenant's quota is used up."),
    FailureCode.RATE_LIMITED: FailureRow(_REFUSED, "Too many requests; send them more slowly."),
    FailureCode.PROMPT_REFUSED: FailureRow(_REFUSED, "The prompt is against the rules of this service."),
    FailureCode.SCREEN_UNAVAILABLE: FailureRow(
        _RETRYABLE, "The content check cannot be reached; nothing passes unchecked."
    ),
    FailureCode.ADDRESS_NOT_ALLOWED: FailureRow(_REFUSED, "That address is not one that this service connects to."),
    FailureCode.FETCH_FAILED: FailureRow(_REFUSED, "The media could not be fetched from its address."),
    FailureCode.MEDIA_INVALID: FailureRow(
        _REFUSED, "The media is not an image, video or sound that this service reads."
    ),
    FailureCode.MEDIA_TOO_LARGE: FailureRow(_REFUSED, "The media is larger or longer than this service takes."),
    FailureCode.SYNC_TIMED_OUT: FailureRow(
        _REFUSED, "The video was not ready within the time limit, and was cancelled."
    ),
    FailureCode.SERVICE_UNAVAILABLE: FailureRow(
        _RETRYABLE,
        "The service cannot take requests at the moment; send it again, with the same Idempotency-Key.",
    ),
    FailureCode.INTERNAL_ERROR: FailureRow(_RETRYABLE, "Something went wrong inside the service; it has been logged."),
    FailureCode.MODEL_FOLDER_INVALID: FailureRow(_TERMINAL, "The model's folder is incomplete or damaged."),
    FailureCode.GROUP_LOST: FailureRow(_RETRYABLE, "The GPU group that worked on the job stopped answering."),
    FailureCode.START_DEADLINE_PASSED: FailureRow(_TERMINAL, "The job could not start before its start deadline."),
    FailureCode.STAGE_STALLED: FailureRow(_RETRYABLE, "The stage showed no progress for too long."),
    FailureCode.STAGE_TIMED_OUT: FailureRow(_RETRYABLE, "The stage took longer than its time limit."),
    FailureCode.REQUEST_UNFIT: FailureRow(_TERMINAL, "The loaded model cannot make what the request asks for."),
    FailureCode.DENOISE_FAILED: FailureRow(_RETRYABLE, "The model failed while it made the video."),
    FailureCode.DENOISE_OUT_OF_MEMORY: FailureRow(_TERMINAL, "The GPU group ran out of memory while denoising."),
    FailureCode.DECODE_FAILED: FailureRow(_RETRYABLE, "Turning the latents into pixels failed."),
    FailureCode.DECODE_OUT_OF_MEMORY: FailureRow(
        _RETRYABLE,
        "Decoding ran out of memory, even in the smallest tiles.",
    ),
    FailureCode.ENCODE_FAILED: FailureRow(_RETRYABLE, "Writing the video file failed."),
    FailureCode.VERIFICATION_FAILED: FailureRow(_RETRYABLE, "The finished file was not what the job asked for."),
    FailureCode.BUS_UNAVAILABLE: FailureRow(_RETRYABLE, "NATS cannot be reached."),
    FailureCode.STORE_UNAVAILABLE: FailureRow(_RETRYABLE, "The object store cannot be reached."),
    FailureCode.STORE_FULL: FailureRow(_RETRYABLE, "The object store or the disk is full."),
    FailureCode.OBJECT_CORRUPT: FailureRow(_RETRYABLE, "An object came back with another length or checksum."),
    FailureCode.OBJECT_MISSING: FailureRow(_TERMINAL, "An object that the job needs is gone."),
    FailureCode.OUTPUT_WITHHELD: FailureRow(FailureKind.WITHHELD, "The video is against the rules of this service."),
    FailureCode.CANCELLED: FailureRow(_TERMINAL, "The job was cancelled."),
}


class Failure(Stored):
    """How a job failed: the code, and what happened in this case."""

    code: FailureCode
    message: str
    stage: str | None = None

    @classmethod
    def of(cls, code: FailureCode, detail: str = "", *, stage: str | None = None) -> "Failure":
        """The code's sentence followed by the detail, cut to what a record can hold (1,000 characters)."""
        return cls(code=code, message=f"{FAILURES[code].sentence} {detail}".strip()[:1000], stage=stage)


class VitascopeError(Exception):
    """The base of every error of ours that has a code.

    Attributes:
        code: the failure code.
        detail: what happened in this case and what to do, without secrets, paths or traces.
        param: the request field at fault, if one is.
    """

    def __init__(self, code: FailureCode, detail: str = "", *, param: str | None = None) -> None:
        self.code, self.detail, self.param = code, detail, param
        super().__init__(f"{FAILURES[code].sentence} {detail}".strip())

    @property
    def kind(self) -> FailureKind:
        """What may follow."""
        return FAILURES[self.code].kind
