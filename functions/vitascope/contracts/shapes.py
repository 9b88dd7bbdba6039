"""Shape buckets, token counts and the cost model that prices a shape before it has been measured."""

import math
from collections.abc import Iterable
from fractions import Fraction

from pydantic import Field

from vitascope.contracts.frozen import Stored


class LatentGeometry(Stored):
    """How a model family turns pixels into transformer tokens.

    The defaults are Wan's: its VAE compresses 4 frames and 8 x 8 pixels, its transformer patches 1 x 2 x 2 latents
    (`AutoencoderKLWan`, `WanTransformer3DModel` of diffusers).
    """

    temporal: int = Field(4, ge=1, description="frames a latent frame stands for, after the first")
    spatial_px: int = Field(8, ge=1, description="pixels a latent stands for, along each axis")
    patch: int = Field(2, ge=1, description="latents a token stands for, along each spatial axis")

    def compute_latent_frames(self, num_frames: int) -> int:
        """Latent frames of a causal VAE: the first frame alone, then one for each `temporal` frames."""
        return math.ceil((num_frames - 1) / self.temporal) + 1

    def compute_tokens(self, width: int, height: int, num_frames: int) -> int:
        """Tokens of one forward pass: 1280 x 720 x 81 are 75,600 with Wan's factors."""
        token_px = self.spatial_px * self.patch
        return self.compute_latent_frames(num_frames) * math.ceil(width / token_px) * math.ceil(height / token_px)


class Bucket(Stored):
    """A shape that a model offers, and the size of the GPU group that makes it."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_]{0,39}$")
    width: int = Field(ge=2, le=16384, multiple_of=2, description="pixels; even, since yuv420p halves the chroma")
    height: int = Field(ge=2, le=16384, multiple_of=2, description="pixels; even")
    num_frames: int = Field(ge=1, le=100_000)
    group_size: int = Field(1, ge=1, le=64, description="GPUs that work on one clip")

    @property
    def size(self) -> str:
        """Width x height as users write it."""
        return f"{self.width}x{self.height}"

    def distance(self, width: int, height: int, num_frames: int) -> float:
        """How far a wished shape is from this one: differences of logarithms, so that ratios count."""
        pairs = ((width, self.width), (height, self.height), (num_frames, self.num_frames))
        return math.hypot(*(math.log(max(wish, 1)) - math.log(own) for wish, own in pairs))


def nearest_bucket(buckets: Iterable[Bucket], width: int, height: int, num_frames: int) -> Bucket:
    """The bucket to suggest for a shape that is not offered; ties go to the first.

    Raises:
        ValueError: there are no buckets.
    """
    return min(buckets, key=lambda bucket: bucket.distance(width, height, num_frames))


class CostModel(Stored):
    """Seconds of one denoising step on one GPU: `fixed + linear * tokens + quadratic * tokens ** 2`.

    The linear term stands for the feed-forward and projection layers, the quadratic one for attention. The
    defaults are the FLOPs of Wan 2.1 14B (2 x 14e9 a token; 4 x 5120 x 40 a token pair; twice, for guidance) at
    4e14 FLOP/s, about half of an H100's dense bfloat16 rate.
    """

    fixed_s: float = Field(0.0, ge=0)
    linear_s: float = Field(1.4e-4, ge=0)
    quadratic_s: float = Field(4.1e-9, ge=0)

    def compute_step_s(self, tokens: int, group_size: int = 1) -> float:
        """Expected seconds of one step on a group of that many GPUs that share the tokens evenly."""
        return self.fixed_s + (self.linear_s * tokens + self.quadratic_s * tokens**2) / group_size

    def compute_gpu_s(self, tokens: int, steps: int, group_size: int = 1) -> float:
        """Expected GPU-seconds of a denoise run: every GPU of the group is paid for the whole time."""
        return self.compute_step_s(tokens, group_size) * steps * group_size


def compute_duration_s(num_frames: int, fps: Fraction) -> Fraction:
    """Length of the clip in seconds, exact."""
    return Fraction(num_frames) / fps
