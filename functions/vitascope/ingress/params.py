"""`GET /v1/video-jobs/{job}/params`: everything that is needed to make the same video again."""

from typing import Literal

from fastapi import APIRouter
from pydantic import Field, JsonValue

from vitascope.contracts.frozen import Frozen
from vitascope.contracts.jobs import Engine, JobRecord
from vitascope.ingress.caller import GivenCaller
from vitascope.ingress.door import GivenDoor
from vitascope.ingress.lookup import load_job
from vitascope.ingress.openapi import describe_errors
from vitascope.ingress.request_views import compute_body, present_reference
from vitascope.ingress.views import ReferenceView

router = APIRouter()


class ParamsView(Frozen):
    """What made a video. Equal requests, references and engines give equal frames."""

    id: str
    object: Literal["video.job.params"] = "video.job.params"
    request: dict[str, JsonValue] = Field(
        description="a body for `POST /v1/video-jobs`, with every value filled in; the references are sent beside it"
    )
    references: list[ReferenceView]
    source_job: str | None = Field(description="the finished job whose video this one started from")
    bucket: str
    group_size: int = Field(description="GPUs that worked on the clip")
    engine: Engine | None = Field(description="what made it; null until denoising is done")
    restart_reason: str | None = Field(description="why steps that had been made were made again, if they were")


@router.get(
    "/v1/video-jobs/{job}/params",
    operation_id="getVideoJobParams",
    summary="What it takes to make it again",
    responses=describe_errors(404),
)
async def get_params(job: str, door: GivenDoor, caller: GivenCaller) -> ParamsView:
    """The request with every value that was filled in, the seed included, and the engine that made the video."""
    return present_params((await load_job(door, caller, job)).record)


def present_params(record: JobRecord) -> ParamsView:
    """The view of a record."""
    return ParamsView(
        id=record.id,
        request=compute_body(record.request),
        references=[present_reference(reference) for reference in record.request.references],
        source_job=record.request.source_job,
        bucket=record.admission.bucket,
        group_size=record.admission.group_size,
        engine=record.result.engine,
        restart_reason=record.run.restarted,
    )
