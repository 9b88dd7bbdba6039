"""What a job will cost: GPU-seconds from the model's cost model, and the price that follows."""

from decimal import ROUND_CEILING, Decimal

from vitascope.contracts.models import ModelEntry
from vitascope.contracts.shapes import Bucket

PRICE_PRECISION = Decimal("0.01")
"""One price unit is one GPU-second of denoising; a price is rounded up to a hundredth of it."""


def compute_gpu_s(entry: ModelEntry, bucket: Bucket, steps: int) -> float:
    """Expected GPU-seconds of denoising, every GPU of the group counted, rounded to milliseconds.

    Each step counts as a guided one, which is what the cost model's figures are of.
    """
    tokens = entry.geometry.compute_tokens(bucket.width, bucket.height, bucket.num_frames)
    return round(entry.cost.compute_gpu_s(tokens, steps, bucket.group_size), 3)


def compute_price_units(gpu_s: float) -> float:
    """The price, at least one `PRICE_PRECISION`; computed in decimals, so that 1.1 does not become 1.11."""
    return float(max(Decimal(repr(gpu_s)).quantize(PRICE_PRECISION, ROUND_CEILING), PRICE_PRECISION))
