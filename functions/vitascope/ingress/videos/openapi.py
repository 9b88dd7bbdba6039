"""The parts of the OpenAPI document that are about this API's bodies and answers."""

from typing import Any

from vitascope.admission import MEDIA_FIELDS
from vitascope.ingress.media_fields import MASKS
from vitascope.ingress.request_schema import REQUEST_SCHEMA, Schema
from vitascope.ingress.videos.own_fields import CRF_OF_QUALITY, MAX_OUTPUTS
from vitascope.ingress.videos.views import EXAMPLE_VIDEO

_OWN: Schema = {
    "user": {"type": "string", "description": "the client's own; not kept"},
    "quality": {"type": "string", "enum": sorted(CRF_OF_QUALITY), "description": "stands for a `crf` if there is none"},
    "return_stage_metrics": {"type": "boolean", "description": "have `metrics` in the record"},
    "num_outputs_per_prompt": {"type": "integer", "minimum": 1, "maximum": MAX_OUTPUTS, "description": "1 is made"},
}
_FIELDS: Schema = {**REQUEST_SCHEMA["properties"], **_OWN}
_TEXTS: Schema = {
    name: {"type": "string", "description": f"as in JSON; written as text. {schema.get('description', '')}".strip()}
    for name, schema in _FIELDS.items()
    if name not in MEDIA_FIELDS
}
_FILE: Schema = {"type": "string", "format": "binary"}
_FILES: Schema = {
    name: {**_FILE, "description": "JSON: a number from 0 to 1, or lists of them"}
    if name in MASKS
    else {**_FILE, "description": "a file, its address, a data URL, or JSON that has one"}
    for name in MEDIA_FIELDS
}
_EXAMPLE = {"prompt": "a red circle moving right on a white background", "size": "64x64", "seconds": "2"}


def _describe_body(json_fields: Schema, form_fields: Schema, required: list[str], example: Schema) -> Schema:
    def make(fields: Schema) -> Schema:
        return {"type": "object", "required": required, "properties": fields}

    return {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": make(form_fields), "example": example},
                "application/json": {"schema": make(json_fields), "example": example},
                "application/x-www-form-urlencoded": {"schema": make(_TEXTS), "example": example},
            },
        },
    }


CREATE_EXTRA = _describe_body(_FIELDS, {**_TEXTS, **_FILES}, ["prompt"], _EXAMPLE)
SYNC_EXTRA = CREATE_EXTRA
REMIX_EXTRA = _describe_body(_FIELDS, _TEXTS, ["prompt"], {"prompt": "the same in blue"})
_ID: Schema = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "string"}},
    "description": "a finished video of this service",
}
EDIT_EXTRA = _describe_body(
    {**_FIELDS, "video": _ID},
    {**_TEXTS, "video": _FILE},
    ["prompt", "video"],
    {"prompt": "the same in blue", "video": {"id": "vj_01KDVDNA00W52FRFC30J36F36P"}},
)


def describe_video(description: str) -> dict[int | str, dict[str, Any]]:
    """The answer that shows a video, for the `responses` of a route."""
    return {200: {"description": description, "content": {"application/json": {"example": EXAMPLE_VIDEO}}}}


def describe_sync() -> dict[int | str, dict[str, Any]]:
    """The answer that is the file, for the `responses` of a route."""
    headers = {
        name: {"schema": {"type": "string"}, "description": text}
        for name, text in {
            "X-Request-Id": "of this request",
            "X-Model": "the model",
            "X-Video-Id": "the video's id, by which it is known while it is made",
            "X-Inference-Time-S": "seconds from creation to the end, the queue included",
            "X-Stage-Durations": "a JSON object: seconds each stage worked",
            "X-Peak-Memory-MB": "0: it is not measured by job",
        }.items()
    }
    return {
        200: {"description": "The file", "headers": headers, "content": {"video/mp4": {}}},
        500: {"description": "The video failed; `code` says why"},
    }
