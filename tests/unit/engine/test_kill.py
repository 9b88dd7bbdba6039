"""A denoise process dies without warning; another one goes on from its checkpoint."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from unit.engine import kill_child
from unit.engine.tiny_families import SAMPLERS
from vitascope.engine.codec import loads

LATENT_BYTES = 16 * 3 * 2 * 2 * 4  # channels, latent frames, height, width, float32
# Whole latents in a checkpoint, and what the sampler keeps between steps: measured, and what makes it large.
COSTS = {
    "unipc": (4, {"model_outputs", "timestep_list", "lower_order_nums", "last_sample", "_step_index", "this_order"}),
    "euler": (1, {"_step_index"}),
    "dpm": (3, {"model_outputs", "lower_order_nums", "_step_index"}),
    "ancestral": (1, {"_step_index"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def ends(folder: Path) -> Any:
    return run("die", folder)


@pytest.fixture(scope="module")
def digests(folder: Path, ends: Any) -> Any:
    del ends  # first things first
    return run("resume", folder)


def run(what: str, folder: Path) -> Any:
    command = [sys.executable, kill_child.__file__, what, str(folder)]
    paths = {"PYTHONPATH": ":".join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"}
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, env=paths, check=True, timeout=200).stdout)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_killed_process_is_resumed_bit_for_bit(sampler: str, ends: Any, digests: Any) -> None:
    """SIGKILL after step 3 of 6; a new process ends with the bits of a run that nothing interrupted."""
    assert -signal.SIGKILL == ends[sampler]
    assert kill_child.digest(kill_child.job(sampler)) == digests[sampler]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_checkpoint_holds_what_the_sampler_needs(sampler: str, folder: Path, digests: Any) -> None:
    """A checkpoint is a few times the latents and 4 kB; a stochastic sampler's generator is in it."""
    del digests
    multiple, names = COSTS[sampler]
    blob = loads((folder / sampler).read_bytes(), kind="checkpoint")
    floats = sum(tensor.nbytes for tensor in blob.tensors.values() if tensor.is_floating_point())

    assert names == set(blob.body["tools"]["scheduler"]["attrs"])
    assert multiple == round(floats / LATENT_BYTES)
    assert (sampler == "ancestral") == ("generator" in blob.body["block"] or "generator" in blob.body["state"])
