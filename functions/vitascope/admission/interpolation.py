"""Frames between the frames: the switch, how many in each gap, and at which scale motion is estimated."""

from vitascope.admission.fields import Fields, refuse
from vitascope.contracts.jobs import FrameInterpolation

SWITCH = "enable_frame_interpolation"
EXP = "frame_interpolation_exp"
SCALE = "frame_interpolation_scale"
MAX_EXP = 4
"""15 frames in each gap: more than any display shows."""
MAX_SCALE = 16.0


def read_interpolation(fields: Fields) -> FrameInterpolation | None:
    """What is asked for; None if the switch is off.

    Raises:
        VitascopeError: `invalid_request`: out of bounds, or details without the switch.
    """
    is_on = fields.read_bool(SWITCH) or False
    exp = fields.read_int(EXP, low=1, high=MAX_EXP)
    scale = fields.read_number(SCALE, low=0, high=MAX_SCALE)
    if scale == 0:
        raise refuse(SCALE, f"{SCALE} must be above 0.")
    if is_on:
        return FrameInterpolation(exp=exp or 1, scale=1.0 if scale is None else scale)
    for name, value in ((EXP, exp), (SCALE, scale)):
        if value is not None:
            raise refuse(name, f"{name} needs {SWITCH}.")
    return None
