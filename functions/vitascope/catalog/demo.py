"""The entry of the demo model, which is the whole catalog when none is configured."""

from fractions import Fraction

from vitascope.contracts.models import Defaults, Limits, ModelEntry
from vitascope.contracts.shapes import Bucket, CostModel

DEMO_NAME = "tiny-wan"
DEMO_SOURCE = "demo://"
_SIZES = ((64, 64), (96, 64), (64, 96), (96, 96), (128, 80), (128, 128))
_NUM_FRAMES = (5, 9, 17, 25, 33)

# A straight line through two measured guided steps on one CPU core:
#   64 x 64 x 17   = 5 x 4 x 4 =  80 tokens: 0.049 s
#   128 x 128 x 33 = 9 x 8 x 8 = 576 tokens: 0.151 s
#   linear = (0.151 - 0.049) / (576 - 80) = 2.0565e-4 s a token;  fixed = 0.049 - 80 * linear = 0.03255 s.
# The quadratic term is left at nought: attention over a few hundred tokens is lost in the fixed cost, and two points
# cannot tell three terms apart.
_COST = CostModel(fixed_s=0.03255, linear_s=2.0565e-4, quadratic_s=0.0)


def make_demo_entry() -> ModelEntry:
    """The demo model as users see it: six sizes, each with five frame counts, float32 on anything."""
    buckets = tuple(
        Bucket(name=f"{width}x{height}_{frames}", width=width, height=height, num_frames=frames)
        for width, height in _SIZES
        for frames in _NUM_FRAMES
    )
    return ModelEntry(
        name=DEMO_NAME,
        title="Tiny Wan: coloured shapes that move on a plain background",
        source=DEMO_SOURCE,
        pool="default",
        dtype="float32",
        cost=_COST,
        buckets=buckets,
        defaults=Defaults(
            width=64,
            height=64,
            num_frames=17,
            fps=Fraction(8),
            num_inference_steps=24,
            guidance_scale=4.0,
        ),
        limits=Limits(max_steps=200, min_fps=Fraction(1), max_fps=Fraction(120)),
    )
