"""The parts of the OpenAPI document that FastAPI cannot read off the handlers: request body, examples, errors."""

from typing import Any

from fastapi import FastAPI

from vitascope.admission.text import MAX_LABELS
from vitascope.contracts.encoding import MAX_CRF, MIN_CRF, PRESETS
from vitascope.contracts.jobs import NEGATIVE_PROMPT_MAX_BYTES, PROMPT_MAX_BYTES, SEED_MAX, SEED_MIN, Tier
from vitascope.ingress.errors import ErrorView
from vitascope.ingress.views import EXAMPLE_JOB, EXAMPLE_RETRY

Schema = dict[str, Any]  # JSON schema: whatever JSON can say

_STEPS: Schema = {"type": "integer", "minimum": 1, "description": "at most the model's `limits.max_steps`"}
_GUIDANCE: Schema = {"type": "number", "minimum": 0, "description": "at most the model's `limits.max_guidance`"}
_FRAMES: Schema = {"type": "integer", "minimum": 1, "description": "of a shape that the model makes"}
_SIDE: Schema = {"type": "integer", "minimum": 2, "description": "pixels, of a shape that the model makes"}
_FPS: Schema = {
    "description": "frames a second; a decimal next to an NTSC rate is taken for it: 23.976 means 24000/1001",
    "oneOf": [
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", "pattern": "^[0-9]{1,9}/[0-9]{1,9}$"},
    ],
}

REQUEST_SCHEMA: Schema = {
    "type": "object",
    "required": ["prompt"],
    "additionalProperties": False,
    "properties": {
        "model": {"type": "string", "description": "a name of `GET /v1/models`; the default model if absent"},
        "prompt": {
            "type": "string",
            "minLength": 1,
            "description": f"at most {PROMPT_MAX_BYTES} bytes of UTF-8; of control characters only line feed and tab",
        },
        "negative_prompt": {"type": "string", "description": f"at most {NEGATIVE_PROMPT_MAX_BYTES} bytes of UTF-8"},
        "size": {"type": "string", "pattern": "^[1-9][0-9]{0,4}x[1-9][0-9]{0,4}$", "description": "WIDTHxHEIGHT"},
        "width": _SIDE,
        "height": _SIDE,
        "frames": _FRAMES,
        "num_frames": {**_FRAMES, "description": "the same as `frames`"},
        "fps": _FPS,
        "steps": _STEPS,
        "num_inference_steps": {**_STEPS, "description": "the same as `steps`"},
        "guidance": _GUIDANCE,
        "guidance_scale": {**_GUIDANCE, "description": "the same as `guidance`"},
        "guidance_scale_2": {**_GUIDANCE, "description": "for models with `has_second_guidance`"},
        "seed": {"type": "integer", "minimum": SEED_MIN, "maximum": SEED_MAX, "description": "drawn if absent"},
        "tier": {"type": "string", "enum": list(Tier), "default": Tier.STANDARD.value},
        "start_deadline": {
            "description": "a job that has not started by then fails: seconds from now, or a time",
            "oneOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "format": "date-time"}],
        },
        "labels": {"type": "object", "maxProperties": MAX_LABELS, "additionalProperties": {"type": "string"}},
        "generate_sound": {"type": "boolean", "description": "for models with `has_sound`"},
        "video_codec_options": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "crf": {"type": "integer", "minimum": MIN_CRF, "maximum": MAX_CRF, "description": "less is better"},
                "preset": {"type": "string", "enum": list(PRESETS), "description": "of libx264"},
            },
        },
    },
}

REQUEST_EXAMPLES: Schema = {
    "short": {"summary": "All defaults", "value": {"prompt": "a red circle moving right on a white background"}},
    "full": {
        "summary": "Everything said",
        "value": {
            "model": "tiny-wan",
            "prompt": "a red circle moving right on a white background",
            "negative_prompt": "blur",
            "size": "64x64",
            "frames": 17,
            "fps": "24000/1001",
            "steps": 20,
            "guidance": 4.0,
            "seed": 7,
            "tier": "standard",
            "start_deadline": 3600,
            "labels": {"project": "demo"},
            "video_codec_options": {"crf": 18},
        },
    },
}

SUBMIT_EXTRA: Schema = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": REQUEST_SCHEMA, "examples": REQUEST_EXAMPLES}},
    },
}

RETRY_ANSWER: dict[int | str, dict[str, Any]] = {
    202: {
        "description": "The new job",
        "headers": {
            "Location": {"description": "the new job's address", "schema": {"type": "string"}},
            "Idempotency-Replayed": {
                "description": "`true` if an earlier request made the job",
                "schema": {"type": "string"},
            },
        },
        "content": {"application/json": {"example": EXAMPLE_RETRY}},
    },
}

_MEANINGS = {
    400: "A field is wrong; `param` names it",
    401: "No API key, or a wrong one",
    403: "The API key does not allow this",
    404: "There is no such job or model",
    409: "The job's state, or an earlier use of the key, forbids it",
    410: "The result has expired",
    413: "The body is too large",
    415: "The body is not JSON",
    416: "The range is past the end of the file",
    429: "The queue is full, a quota is used up, or requests come too fast; `Retry-After` says when to try again",
    504: "The video was not ready within the time limit",
    503: "NATS or the object store cannot be reached; `Retry-After` says when to try again",
}


class DescribedApi(FastAPI):
    """An application whose OpenAPI document has whole examples."""

    def openapi(self) -> Schema:
        """The document; made once."""
        document: Schema = super().openapi()
        document["components"]["schemas"]["JobView"]["examples"] = [EXAMPLE_JOB]
        return document


def describe_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error answers of a route, for its `responses`; 401 and 503 may come from each."""
    described: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorView, "description": _MEANINGS[status]} for status in sorted({*statuses, 401, 503})
    }
    return described | {"default": {"model": ErrorView, "description": "Any other error"}}
