"""From a request as it was admitted back to the fields in which clients wrote it. Pure."""

from typing import Any

from pydantic import JsonValue

from vitascope.admission.rate import format_fps
from vitascope.contracts.jobs import Reference, VideoRequest
from vitascope.ingress.views import ReferenceView


def present_reference(reference: Reference) -> ReferenceView:
    """The view of a stored reference; its key stays inside."""
    return ReferenceView(
        role=reference.role,
        media_type=reference.media_type,
        bytes=reference.object.bytes,
        sha256=reference.object.sha256,
        width=reference.width,
        height=reference.height,
        num_frames=reference.num_frames,
        duration_s=reference.duration_s,
    )


def compute_body(request: VideoRequest) -> dict[str, JsonValue]:
    """The body that is admitted as this very request, but for its media; tier and labels do not show in a video."""
    plain: dict[str, JsonValue] = {
        "model": request.model,
        "prompt": request.prompt,
        "negative_prompt": request.negative_prompt,
        "width": request.width,
        "height": request.height,
        "num_frames": request.num_frames,
        "fps": format_fps(request.fps),
        "num_inference_steps": request.num_inference_steps,
        "guidance_scale": request.guidance_scale,
        "seed": request.seed,
    }
    return plain | {name: value for name, value in compute_abilities(request).items() if value not in (None, {}, False)}


def compute_abilities(request: VideoRequest) -> dict[str, Any]:  # as keyword arguments, each of a type of its own
    """The fields for which a model needs an ability, as a body spells them; what is absent is None, False or empty."""
    lora, between = request.lora, request.interpolation
    return {
        "guidance_scale_2": request.guidance_scale_2,
        "flow_shift": request.flow_shift,
        "boundary_ratio": request.boundary_ratio,
        "true_cfg_scale": request.true_cfg_scale,
        "generate_sound": request.generate_sound,
        "sound_duration": request.sound_duration_s,
        "control_type": request.control_type,
        "lora": lora.model_dump(mode="json", exclude_none=True) if lora else None,
        "enable_frame_interpolation": between is not None,
        "frame_interpolation_exp": between.exp if between else None,
        "frame_interpolation_scale": between.scale if between else None,
        "video_codec_options": dict[str, JsonValue](request.video_codec_options),
        "extra_params": request.extra_params,
    }
