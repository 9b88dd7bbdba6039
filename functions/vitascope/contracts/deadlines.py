"""How long a stage may take, and may be silent, computed from the job's record. Pure.

Two limits hold for every run of a stage. *Silence*: without a step (denoise) or a chunk (decode, encode) for
`STALL_STEPS` times the pace of the steps before, the run is taken for hung. *Time*: a run that takes `LIMIT_FACTOR`
times what its bucket is expected to take has failed, however busily it works. Both have floors, which alone count for
small shapes. What is not the run's own doing counts for neither: loading a model, since no work is taken before it is
loaded, and waiting for a server or for the stage before.

The expectation comes from the record: denoise has its estimate, which is the catalogue's cost model of the bucket;
decode and encode have the bucket's pixels. It may be off by the factor before anything innocent is ended.
"""

from dataclasses import dataclass
from statistics import median

from vitascope.contracts.flow import Stage
from vitascope.contracts.jobs import JobRecord

STALL_STEPS = 10
"""So many times the expected step without a sign of life is no slow step any more."""
STALL_FLOOR_S = 60.0
"""Silence that is never held against a run whose steps have begun: a pause of the machine, a full disk cache."""
FIRST_FLOOR_S = 600.0
"""Before the second step: reading inputs and checkpoint, text encoding, warm-up, compilation of the model."""
LIMIT_FACTOR = 10
"""A whole run may take so many times what is expected of it."""
LIMIT_FLOOR_S = 1800.0
"""No run is ended before: preparation is in it, and small shapes are all preparation."""
PACE_STEPS = 5
"""The pace is the median of so many steps: two outliers among them count nothing."""

PX_S = {Stage.DECODE: 1e6, Stage.ENCODE: 2e6}
"""Pixels a second that a slow but healthy machine makes: a tenth of what a data-centre GPU decodes with Wan's VAE, and
x264 at its slower presets on two old cores, the check of the finished file included."""


@dataclass(frozen=True)
class StageLimits:
    """What a run may take, in seconds.

    Attributes:
        step_s: expected of the longest single act: a step, or the whole clip where it may be made in one piece.
        first_s: silence until the pace of the steps is known.
        limit_s: the whole run.
    """

    step_s: float
    first_s: float
    limit_s: float


UNREAD = StageLimits(step_s=0.0, first_s=FIRST_FLOOR_S, limit_s=LIMIT_FLOOR_S)
"""Until the record has been read."""


def compute_limits(record: JobRecord, stage: Stage) -> StageLimits:
    """The limits of one run of a stage. A resumed or repeated run gets the whole time again."""
    run_s = compute_expected_s(record, stage)
    # Some VAEs give all frames at once, and the end of an encode reads the whole file: one act may be the whole clip.
    step_s = run_s / max(record.run.steps, 1) if stage is Stage.DENOISE else run_s
    return StageLimits(
        step_s=step_s,
        first_s=max(FIRST_FLOOR_S, STALL_STEPS * step_s),
        limit_s=LIMIT_FLOOR_S + LIMIT_FACTOR * run_s,
    )


def compute_expected_s(record: JobRecord, stage: Stage) -> float:
    """What a run of the stage is expected to take, in seconds."""
    request, admission = record.request, record.admission
    if stage is Stage.DENOISE:
        return admission.estimated_gpu_s / admission.group_size
    return request.width * request.height * request.num_frames / PX_S[stage]


def compute_stall_s(limits: StageLimits, steps_s: list[float]) -> float:
    """The silence that is allowed, given how long the newest steps took, in seconds; none if it is not known yet."""
    if not steps_s:
        return limits.first_s
    return max(STALL_FLOOR_S, STALL_STEPS * median(steps_s[-PACE_STEPS:]))
