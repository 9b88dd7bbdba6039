"""The entry of the demo model, which is the whole catalog when none is configured."""

from fractions import Fraction

from vitascope.contracts.models import Capabilities, Defaults, Limits, ModelEntry
from vitascope.contracts.shapes import Bucket, CostModel, LatentGeometry

DEMO_NAME = "tiny-wan"
DEMO_SOURCE = "demo://"
_SIZES = ((64, 64), (96, 64), (64, 96), (96, 96), (128, 80), (128, 128))
_NUM_FRAMES = (5, 9, 17, 25, 33)

# The demo model's transformer takes each latent as a token (patch 1 x 1 x 1), so attention counts. Two measured
# guided steps on one CPU core (demo_model/metrics.json) determine the linear and the quadratic term:
#   64 x 64 x 17   = 5 x  8 x  8 =   320 tokens: 0.066 s
#   128 x 128 x 33 = 9 x 16 x 16 = 2,304 tokens: 0.77 s
#   quadratic = (0.77 / 2304 - 0.066 / 320) / (2304 - 320) = 6.449e-8;  linear = 0.066 / 320 - 320 * quadratic.
_GEOMETRY = LatentGeometry(patch=1)
_COST = CostModel(fixed_s=0.0, linear_s=1.8561e-4, quadratic_s=6.449e-8)


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
        geometry=_GEOMETRY,
        cost=_COST,
        capabilities=Capabilities(has_flow_shift=True),
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
