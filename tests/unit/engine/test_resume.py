"""A checkpoint of any step, taken to another process, gives the bits of the run that nothing interrupted."""

import json
import math
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load as load_tensors

from records import video_request
from unit.engine import resume_cases
from unit.engine.resume_cases import CASES, REQUEST, STEPS, Resumed
from vitascope.denoise.denoiser import CheckpointUnfit
from vitascope.denoise.modular import ModularDenoiser
from vitascope.engine import BlobError, BlobFormatError, BlobVersionError, DenoiseModel, StepReport, codec

# Of each case: the latents themselves, and what sampler and guiders keep of earlier steps, each as large.
LATENTS_KEPT = {
    "experts-unipc": 4,
    "experts-euler": 1,
    "experts-dpm": 3,
    "experts-ancestral": 1,
    "experts-sde": 3,
    "momentum-unipc": 5,
    "momentum-ancestral": 2,
    "zero-star-dpm": 3,
}
GENERATOR_BYTES = 5056  # the state of a Mersenne twister in torch
JSON_BYTES = 6000  # names, scalars, the tensor table; steps add a few each
WIDTHS = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("resume")
    resume_cases.save_models(made)
    return made


@pytest.fixture(scope="module")
def first(folder: Path) -> dict[str, Resumed]:
    """The runs that nothing interrupts; their checkpoints lie in the folder."""
    return {case: keep(folder, case) for case in CASES}


@pytest.fixture(scope="module")
def second(folder: Path, first: dict[str, Resumed]) -> Any:
    """What a new process makes of those checkpoints."""
    del first  # first things first
    command = [sys.executable, resume_cases.__file__, str(folder)]
    paths = {"PYTHONPATH": ":".join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"}
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, env=paths, check=True, timeout=280).stdout)


@pytest.fixture(scope="module")
def model(folder: Path) -> DenoiseModel:
    return resume_cases.load(folder, "unipc")


def keep(folder: Path, case: str) -> Resumed:
    digests: dict[str, str] = {}
    (folder / case).mkdir()

    def on_step(report: StepReport) -> None:
        checkpoint = report.snapshot()
        (folder / case / str(report.step)).write_bytes(checkpoint)
        digests[str(report.step)] = resume_cases.digest(checkpoint)

    return Resumed(resume_cases.digest(resume_cases.run(folder, case, on_step)), digests)


def steps_of(last: int, first: int = 1) -> list[str]:
    return [str(step) for step in range(first, last + 1)]


@pytest.mark.parametrize("case", CASES)
def test_new_process_resumes_every_step_bit_for_bit(case: str, first: dict[str, Resumed], second: Any) -> None:
    """After each step of a run, the last too: a fresh interpreter, a freshly loaded model, the same result."""
    assert dict.fromkeys(steps_of(STEPS), first[case].result) == {
        step: resumed["result"] for step, resumed in second[case]["once"].items()
    }


@pytest.mark.parametrize("case", CASES)
def test_no_step_is_run_twice(case: str, second: Any) -> None:
    """A run that goes on after step n reports n + 1 and what follows."""
    assert {step: steps_of(STEPS, int(step) + 1) for step in steps_of(STEPS)} == {
        step: list(resumed["checkpoints"]) for step, resumed in second[case]["once"].items()
    }


@pytest.mark.parametrize("case", CASES)
def test_checkpoints_of_a_resumed_run_are_those_of_the_first(case: str, first: dict[str, Resumed], second: Any) -> None:
    """Byte for byte, at every later step: whatever is interrupted, and how often, the next one finds the same."""
    expected = first[case].checkpoints
    for step, resumed in second[case]["once"].items():
        assert {later: expected[later] for later in steps_of(STEPS, int(step) + 1)} == resumed["checkpoints"]


@pytest.mark.parametrize("case", CASES)
def test_run_interrupted_after_every_step(case: str, first: dict[str, Resumed], second: Any) -> None:
    """A resume of a resume of a resume, each in objects of its own, ends with the same bits."""
    assert first[case].result == second[case]["again"]


@pytest.mark.parametrize("sampler", resume_cases.EXPERTS_WITH)
def test_the_experts_change_within_the_run(sampler: str, folder: Path) -> None:
    """The cases above resume before, at and after the step at which the second transformer takes over."""
    model = resume_cases.load(folder, sampler)
    ran: list[str] = []
    for name in ("transformer", "transformer_2"):
        model._loaded.components[name].register_forward_hook(lambda *_, name=name: ran.append(name))
    by_step: list[set[str]] = []

    def on_step(_: StepReport) -> None:
        by_step.append(set(ran))
        ran.clear()

    model.run(REQUEST, on_step)
    before = by_step.index({"transformer_2"})

    assert 1 <= before < STEPS
    assert [{"transformer"}] * before + [{"transformer_2"}] * (STEPS - before) == by_step


@pytest.mark.parametrize("case", CASES)
def test_checkpoint_is_a_table_of_numbers_and_json(case: str, folder: Path, first: dict[str, Resumed]) -> None:
    """Read without any library: every byte belongs to the JSON header or to a number of a known type. No pickle."""
    for step in first[case].checkpoints:
        data = (folder / case / step).read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + length])
        inner = json.loads(header.pop("__metadata__")["vitascope"])
        entries = sorted(header.values(), key=lambda entry: entry["data_offsets"])
        sizes = [WIDTHS[entry["dtype"]] * math.prod(entry["shape"]) for entry in entries]

        assert {"format", "kind", "made_by", "stamp", "body"} == set(inner)
        assert (1, "checkpoint", int(step)) == (inner["format"], inner["kind"], inner["body"]["step"])
        assert [[sum(sizes[:at]), sum(sizes[: at + 1])] for at in range(len(sizes))] == [
            entry["data_offsets"] for entry in entries
        ]
        assert len(data) == 8 + length + sum(sizes)


@pytest.mark.parametrize("case", CASES)
def test_checkpoint_is_bounded_by_the_latents(case: str, folder: Path, first: dict[str, Resumed]) -> None:
    """A few times the latents, two generators and some kB of JSON, at every step: it does not grow with the run."""
    for step in first[case].checkpoints:
        data = (folder / case / step).read_bytes()
        largest = max(tensor.nbytes for tensor in load_tensors(data).values() if tensor.is_floating_point())

        assert len(data) <= LATENTS_KEPT[case] * largest + 2 * GENERATOR_BYTES + JSON_BYTES


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


HARMS: dict[str, tuple[Callable[[bytes], bytes], type[BlobError]]] = {
    "empty": (lambda _: b"", BlobFormatError),
    "cut-in-the-header": (lambda data: data[:100], BlobFormatError),
    "cut-in-the-tensors": (lambda data: data[:-1], BlobFormatError),
    "longer": (lambda data: data + b"\0", BlobFormatError),
    "flipped-length": (lambda data: flip(data, 0), BlobFormatError),
    "flipped-step": (lambda data: flip(data, data.index(b'step\\": 3') + 8), BlobFormatError),
    "flipped-latents": (lambda data: flip(data, len(data) - 1), BlobFormatError),
    "other-format": (lambda data: data.replace(b'format\\": 1', b'format\\": 9'), BlobVersionError),
}


@pytest.mark.parametrize("harm", HARMS)
def test_harmed_checkpoint_is_refused_before_any_step(
    harm: str, folder: Path, first: dict[str, Resumed], model: DenoiseModel
) -> None:
    """No step is run on what is not whole, and the same process then makes the job from its start."""
    change, error = HARMS[harm]
    whole = (folder / "experts-unipc" / "3").read_bytes()
    steps: list[StepReport] = []
    with pytest.raises(error):
        model.run(REQUEST, steps.append, change(whole))

    assert change(whole) != whole
    assert [] == steps
    assert first["experts-unipc"].result == resume_cases.digest(model.run(REQUEST))


@pytest.mark.parametrize("at", [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
def test_no_flipped_sample_gets_through(
    at: float, folder: Path, first: dict[str, Resumed], model: DenoiseModel
) -> None:
    """Wherever in the tensors a bit flips, the digest tells."""
    del first
    whole = (folder / "experts-unipc" / "3").read_bytes()
    begin = 8 + int.from_bytes(whole[:8], "little")
    with pytest.raises(BlobFormatError):
        model.run(REQUEST, None, flip(whole, begin + int(at * (len(whole) - 1 - begin))))


def test_checkpoint_of_other_library_versions_is_refused_before_any_step(
    folder: Path, first: dict[str, Resumed], model: DenoiseModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade in the middle of a job starts it again rather than going on inexactly."""
    del first
    steps: list[StepReport] = []
    monkeypatch.setattr(codec, "VERSIONS", {**codec.VERSIONS, "diffusers": "0.1"})
    with pytest.raises(BlobVersionError, match="was made by"):
        model.run(REQUEST, steps.append, (folder / "experts-unipc" / "3").read_bytes())

    assert [] == steps


@pytest.mark.parametrize("case", ["experts-euler", "experts-sde"])
def test_checkpoint_of_another_fingerprint_is_refused_before_any_step(
    case: str, folder: Path, first: dict[str, Resumed], model: DenoiseModel
) -> None:
    """The same weights with another sampler are another engine."""
    del first
    steps: list[StepReport] = []
    with pytest.raises(BlobVersionError, match="made with fingerprint"):
        model.run(REQUEST, steps.append, (folder / case / "3").read_bytes())

    assert [] == steps


def test_checkpoint_of_another_request_is_refused_before_any_step(
    folder: Path, first: dict[str, Resumed], model: DenoiseModel
) -> None:
    """Steps of one seed are no start for another."""
    del first
    steps: list[StepReport] = []
    with pytest.raises(BlobVersionError, match="made with request"):
        model.run(replace(REQUEST, seed=REQUEST.seed + 1), steps.append, (folder / "experts-unipc" / "3").read_bytes())

    assert [] == steps


@pytest.mark.parametrize("harm", ["cut-in-the-tensors", "flipped-latents", "other-format"])
def test_denoise_process_hears_that_a_checkpoint_is_unfit(
    harm: str, folder: Path, first: dict[str, Resumed], model: DenoiseModel
) -> None:
    """Then it starts the job from its first step and says so in the record; any other error would fail the job."""
    del first
    steps: list[int] = []
    request = video_request(width=16, height=16, num_frames=5, num_inference_steps=STEPS)
    harmed = HARMS[harm][0]((folder / "experts-unipc" / "3").read_bytes())
    with pytest.raises(CheckpointUnfit):
        ModularDenoiser({request.model: model}).run(request, (), lambda step, *_: steps.append(step), harmed)

    assert [] == steps
