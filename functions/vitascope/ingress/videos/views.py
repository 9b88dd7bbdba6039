"""What clients of this API see: every key is always there."""

from typing import Literal

from pydantic import Field, JsonValue

from vitascope.contracts.failures import FailureCode
from vitascope.contracts.frozen import Frozen

VideoStatus = Literal["queued", "in_progress", "completed", "failed"]

EXAMPLE_VIDEO: dict[str, JsonValue] = {
    "id": "vj_01KDVDNA00W52FRFC30J36F36P",
    "object": "video",
    "status": "in_progress",
    "model": "tiny-wan",
    "prompt": "a red circle moving right on a white background",
    "size": "64x64",
    "seconds": "2",
    "quality": "default",
    "progress": 54,
    "seed": 7,
    "created_at": 1767225600,
    "completed_at": None,
    "expires_at": None,
    "remixed_from_video_id": None,
    "error": None,
    "media_type": "video/mp4",
    "file_name": None,
    "inference_time_s": None,
    "fps": 8,
    "num_frames": 17,
    "duration_s": 2.125,
    "metrics": None,
    "stage_durations": {},
    "peak_memory_mb": 0.0,
    "action": None,
}


class VideoErrorView(Frozen):
    """Why a video failed."""

    code: FailureCode
    message: str
    param: str | None = None


class VideoView(Frozen):
    """A video as it is at this moment: the record of OpenAI's API, with the keys that vLLM-Omni adds."""

    id: str
    object: Literal["video"] = "video"
    status: VideoStatus
    model: str
    prompt: str
    size: str = Field(description="WIDTHxHEIGHT in pixels")
    seconds: str = Field(description="the clip's length; of a clip of 4 n + 1 frames, that of its gaps")
    quality: str = Field(description="as it was asked for, or `default`")
    progress: int = Field(ge=0, le=100, description="percent")
    seed: int = Field(description="drawn if the request had none")
    created_at: int = Field(description="Unix time, seconds")
    completed_at: int | None = Field(description="Unix time, seconds; set on failure, too")
    expires_at: int | None = Field(description="Unix time, seconds: when the video goes, file and record")
    remixed_from_video_id: str | None
    error: VideoErrorView | None
    media_type: Literal["video/mp4"] = "video/mp4"
    file_name: str | None = Field(description="null as long as there is no file")
    inference_time_s: float | None = Field(description="from creation to the end, the queue included")
    fps: float = Field(description="frames a second; the exact rate is in the job at /v1/video-jobs")
    num_frames: int
    duration_s: float
    metrics: dict[str, JsonValue] | None = Field(description="null unless `return_stage_metrics` asked for them")
    stage_durations: dict[str, float] = Field(description="seconds each stage worked")
    peak_memory_mb: float = Field(description="0: it is not measured by job")
    action: None = Field(description="of robotics models, of which there are none here")


class VideoListView(Frozen):
    """A page of videos."""

    object: Literal["list"] = "list"
    data: list[VideoView]
    first_id: str | None
    last_id: str | None = Field(description="send it as `after` to get the next page")
    has_more: bool


class VideoDeletedView(Frozen):
    """A video that is gone."""

    id: str
    object: Literal["video.deleted"] = "video.deleted"
    deleted: Literal[True] = True
