"""The body of a request, as the OpenAPI document describes it: every field that `admission` reads, and no other."""

from typing import Any

from vitascope.admission.callback import CALLBACK_MAX_BYTES
from vitascope.admission.interpolation import MAX_EXP
from vitascope.admission.lora import MAX_INT_ID, MAX_SCALE, MIN_SCALE
from vitascope.admission.numbers import MAX_FLOW_SHIFT, MAX_SOUND_S
from vitascope.admission.references import MAX_REFERENCES
from vitascope.admission.text import MAX_LABELS
from vitascope.contracts.encoding import MAX_CRF, MIN_CRF, PRESETS
from vitascope.contracts.jobs import NEGATIVE_PROMPT_MAX_BYTES, PROMPT_MAX_BYTES, SEED_MAX, SEED_MIN, Tier

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

_URL: Schema = {"type": "string", "description": "an http or https URL, or a data URL in base64"}
_NAMED: Schema = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
    "properties": dict.fromkeys(("image_url", "video_url", "audio_url"), _URL),
}
_MEDIA: Schema = {"oneOf": [_URL, _NAMED]}
_NOT_OFFERED: Schema = {"description": "refused by name: no model of this service takes it"}


def _describe_media(kind: str, limit: str) -> Schema:
    """One reference of a kind, or a list of them."""
    one: Schema = {
        "type": "object",
        "required": [f"{kind}_url"],
        "additionalProperties": False,
        "properties": {f"{kind}_url": _URL},
    }
    return {"oneOf": [one, {"type": "array", "items": one}], "description": f"at most the model's `{limit}`"}


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
        "seconds": {
            "description": "whole seconds instead of `frames`, as a number or its digits",
            "oneOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^[1-9][0-9]{0,8}$"}],
        },
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
        "true_cfg_scale": {**_GUIDANCE, "description": "for models with `capabilities.has_true_cfg`"},
        "flow_shift": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": MAX_FLOW_SHIFT,
            "description": "for models with `capabilities.has_flow_shift`",
        },
        "boundary_ratio": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "description": "for models with `capabilities.has_boundary_ratio`",
        },
        "seed": {"type": "integer", "minimum": SEED_MIN, "maximum": SEED_MAX, "description": "drawn if absent"},
        "tier": {"type": "string", "enum": list(Tier), "default": Tier.STANDARD.value},
        "start_deadline": {
            "description": "a job that has not started by then fails: seconds from now, or a time",
            "oneOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "format": "date-time"}],
        },
        "labels": {"type": "object", "maxProperties": MAX_LABELS, "additionalProperties": {"type": "string"}},
        "callback_url": {
            "type": "string",
            "format": "uri",
            "maxLength": CALLBACK_MAX_BYTES,
            "description": "an http or https address that the events of this job are posted to",
        },
        "generate_sound": {"type": "boolean", "description": "for models with `has_sound`"},
        "sound_duration": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": MAX_SOUND_S,
            "description": "seconds; needs `generate_sound`",
        },
        "input_reference": {**_MEDIA, "description": "an image or a video to start from"},
        "input_references": {
            "type": "array",
            "maxItems": MAX_REFERENCES,
            "items": _MEDIA,
            "description": "several references of any kind; excludes the other reference fields",
        },
        "image_reference": _describe_media("image", "capabilities.max_images"),
        "video_reference": _describe_media("video", "capabilities.max_videos"),
        "audio_reference": _describe_media("audio", "capabilities.max_audios"),
        "control_reference": {**_MEDIA, "description": "an image or a video that steers; needs `control_type`"},
        "control_type": {"type": "string", "description": "one of the model's `capabilities.control_types`"},
        "source_video": {**_MEDIA, "description": "the video to edit, for models with `capabilities.latent_edit`"},
        "source_audio": {**_MEDIA, "description": "the sound to edit; needs `audio_noise_mask`"},
        "video_noise_mask": {**_MEDIA, "description": "JSON numbers from 0 (keep the source) to 1 (make anew)"},
        "audio_noise_mask": {**_MEDIA, "description": "JSON numbers from 0 (keep the source) to 1 (make anew)"},
        "lora": {
            "type": "object",
            "description": "an adapter, for models with `capabilities.has_lora`",
            "properties": {
                "name": {"type": "string"},
                "path": {"type": "string", "description": "begins with one of `capabilities.lora_sources`"},
                "scale": {"type": "number", "minimum": MIN_SCALE, "maximum": MAX_SCALE, "default": 1},
                "int_id": {"type": "integer", "minimum": 1, "maximum": MAX_INT_ID},
            },
        },
        "enable_frame_interpolation": {
            "type": "boolean",
            "description": "frames between those of the model, where `capabilities.has_interpolation`",
        },
        "frame_interpolation_exp": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_EXP,
            "description": "2^exp - 1 frames in each gap",
        },
        "frame_interpolation_scale": {"type": "number", "exclusiveMinimum": 0},
        "frame_interpolation_model_path": _NOT_OFFERED,
        "aspect_ratio": {
            "description": "instead of a size: the model's size of those proportions, to within 5 %",
            "oneOf": [{"type": "string"}, {"type": "number"}],
        },
        "short_edge": {"type": "integer", "minimum": 1, "description": "instead of a size: pixels of the shorter side"},
        "start_time_seconds": _NOT_OFFERED,
        "extra_params": {
            "type": "object",
            "description": "what the model declares in `capabilities.extra_params`; anything else is refused",
        },
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
