"""What durability costs one job: the whole pipeline against the monolith, same model, shape, steps and threads.

    PYTHONPATH=tests python -m bench.pipeline_overhead [--clips 5] [--threads 2]

The two take turns. Prints medians, their ratio, and how the pipeline's time divides: what remains beyond denoise, the
decode and encode of what was not overlapped, is the price of records, events, objects and verification.
"""

import argparse
import json
import tempfile
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.contenders import make_clip, running_monolith

from pipeline import running_up

SHAPE = {"size": "128x128", "frames": 33, "steps": 20, "fps": 8}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    threads = {f"VITASCOPE_{stage}__THREADS": str(options.threads) for stage in ("DENOISE", "DECODE")}
    ours, theirs = [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        running_up(Path(folder) / "up", **threads) as up,
        running_monolith(options.clips, SHAPE, options.threads) as monolith,
    ):
        make_clip(up.url, {**SHAPE, "steps": 1}, seed=99)  # both have run once before the first figure
        for index in range(options.clips):
            theirs.append(monolith.make())
            ours.append(divide(make_clip(up.url, SHAPE, index)))
    report(ours, theirs)


def divide(made: dict[str, Any]) -> dict[str, float]:
    """The seconds of one job by what they went to; spans between stamps of the record."""
    result = made["job"]["result"]
    stages = result["stage_seconds"]
    created, finished = (datetime.fromisoformat(made["job"][name]) for name in ("created_at", "finished_at"))
    return {
        "wall_s": made["wall_s"],
        "record_s": (finished - created).total_seconds(),
        "denoise_s": stages["denoise"],
        "decode_s": stages["decode"],
        "encode_busy_s": stages["encode"],
    }


def report(ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> None:
    """Medians, ratio and remainder, as text and JSON."""
    mine, other = ({name: median(row[name] for row in rows) for name in rows[0]} for rows in (ours, theirs))
    figures = {
        "shape": SHAPE,
        "clips": len(ours),
        "pipeline": mine,
        "monolith": other,
        "ratio": mine["wall_s"] / other["wall_s"],
        "beyond_denoise_and_decode_s": mine["wall_s"] - mine["denoise_s"] - mine["decode_s"],
    }
    print(f"monolith {other['wall_s']:.3f} s, pipeline {mine['wall_s']:.3f} s, ratio {figures['ratio']:.3f}")
    print(f"pipeline beyond denoise and decode: {figures['beyond_denoise_and_decode_s'] * 1e3:.0f} ms")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
