"""What the service's answers mean: the shapes that commands read, and refusals as errors of the command."""

from collections.abc import Mapping
from typing import Any

import httpx

from vitascope.cli.exits import CommandError, Exit

Json = dict[str, Any]  # answers of the HTTP API, read by name and shown

JOB = {
    "id": str, "status": str, "prompt": str, "width": int, "height": int, "num_frames": int, "fps": object,
    "seed": int, "steps": int,
}  # fmt: skip
JOBS = {"data": [JOB]}
MODELS = {
    "data": [{
        "id": str, "tasks": [str], "defaults": dict, "limits": dict,
        "buckets": [{"name": str, "size": str, "num_frames": int, "price_units": object}],
    }],
}  # fmt: skip
QUEUE = {"jobs": dict}
READINESS = {"checks": dict}

FIXES: Mapping[str, str] = {
    "shape_not_allowed": "`vitascope models` lists the sizes and frame counts of each model.",
    "capability_missing": "`vitascope models` lists what each model can do.",
    "model_not_found": "`vitascope models` lists the models.",
    "not_found": "`vitascope jobs list` lists the jobs.",
    "not_ready": "`vitascope jobs watch ID` waits for it.",
    "not_cancellable": "`vitascope jobs show ID` says how it ended.",
    "not_retryable": "`vitascope jobs show ID` says where it is; `vitascope generate` makes a video anew.",
    "not_preemptable": "Nothing is to be done: no GPU group works on it.",
    "content_expired": "Make the video again with `vitascope generate`; the same seed gives the same video.",
}
"""What to do about a refusal, by the service's own code for it."""


def fits(value: Any, shape: Any) -> bool:  # any JSON, and the nested types that it is held against
    """Whether a JSON value has the shape: a dict names fields that must be there, a list has the shape of its items."""
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(name in value and fits(value[name], shape[name]) for name in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(item, shape[0]) for item in value)
    return isinstance(value, shape)


def read_answer(response: httpx.Response, shape: Json) -> Json:
    """The body of a good answer.

    Raises:
        CommandError: as `make_refusal`; or `REJECTED`, the body is not what this service's API answers.
    """
    if not response.is_success:
        raise make_refusal(response)
    body = read_json(response)
    if not fits(body, shape):
        raise make_foreign(response)
    answer: Json = body
    return answer


def read_json(response: httpx.Response) -> Any:  # any JSON
    """The body, or None if it is not JSON."""
    try:
        return response.json()
    except ValueError:
        return None


def make_refusal(response: httpx.Response) -> CommandError:
    """An answer that is no success, in the service's own words as far as it has some.

    Too many requests and every failure of the server are `NOT_READY`, since the same request may succeed later; all
    else is `REJECTED`.
    """
    body, status = read_json(response), response.status_code
    is_ours = fits(body, {"error": {"message": str, "code": str}})
    error = body["error"] if is_ours else {"message": f"the service answered {status}", "code": ""}
    why = f"field {error['param']}" if error.get("param") else ""
    if status == httpx.codes.UNAUTHORIZED:
        fix = "Set VITASCOPE_API_KEY to a key that the service takes."
        return CommandError(Exit.REJECTED, error["message"], why=why, fix=fix, word=error["code"])
    if status == httpx.codes.TOO_MANY_REQUESTS or response.is_server_error:
        fix = "Try again later; `vitascope status` says what is missing."
        return CommandError(Exit.NOT_READY, error["message"], why=why, fix=fix, word=error["code"])
    if not is_ours:
        return make_foreign(response)
    return CommandError(Exit.REJECTED, error["message"], why=why, fix=FIXES.get(error["code"], ""), word=error["code"])


def make_foreign(response: httpx.Response) -> CommandError:
    """An answer that this service's API does not give: something else listens there."""
    request = response.request
    return CommandError(
        Exit.REJECTED,
        f"the service at {request.url.scheme}://{request.url.netloc.decode()} does not speak the vitascope API",
        why=f"its answer to {request.method} {request.url.path} was another, with status {response.status_code}",
        fix="Set VITASCOPE_URL to a vitascope service, or start one with `vitascope up`.",
    )
