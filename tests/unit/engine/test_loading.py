"""Loading from a standard model folder: only what a stage needs, from no network, and clear words when broken."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from unit.engine import tiny_folder
from unit.engine.tiny_folder import REQUEST, theirs
from vitascope.engine import DecodeModel, DenoiseModel, ModelFolderError, UnknownFamilyError
from vitascope.engine.loading import load_stages
from vitascope.engine.run import unpack_hand_over
from vitascope.engine.stream import to_uint8

CPU = torch.device("cpu")
DENOISE_PARTS = {"text_encoder", "tokenizer", "transformer", "transformer_2", "scheduler"}


@pytest.fixture
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("_no_network")
def test_stages_from_disk_equal_the_librarys_pipeline(wan22_folder: Path) -> None:
    """Sharded, Wan 2.2, from disk alone: latents and pictures are those of WanPipeline, bit for bit."""
    assert len(list((wan22_folder / "transformer").glob("*.safetensors"))) > 1
    denoise = DenoiseModel.load(wan22_folder, dtype=torch.float32)
    decode = DecodeModel.load(wan22_folder, dtype=torch.float32)
    library = diffusers.WanPipeline.from_pretrained(wan22_folder)
    library.set_progress_bar_config(disable=True)

    sent = denoise.run(REQUEST)

    assert torch.equal(theirs(library, REQUEST, "latent"), unpack_hand_over(sent)[0].values["latents"])
    assert np.array_equal(to_uint8(theirs(library, REQUEST, "pt")), np.concatenate(list(decode.stream(sent))))


def test_each_stage_holds_only_its_own(wan22_folder: Path) -> None:
    """No VAE weights where it denoises, nothing but the VAE where it decodes; neighbours have shapes, no weights."""
    denoise = load_stages(wan22_folder, ("encode", "denoise"), dtype=torch.float32, device=CPU)
    decode = load_stages(wan22_folder, ("decode",), dtype=torch.float32, device=CPU)

    assert DENOISE_PARTS == set(denoise.components)
    assert {"vae"} == set(decode.components)
    for model in [*denoise.neighbours.values(), *decode.neighbours.values()]:
        assert {"meta"} == {weights.device.type for weights in model.parameters()}
    assert {"vae"} == set(denoise.neighbours)


def test_settings_come_from_the_index(wan22_folder: Path) -> None:
    """boundary_ratio is the folder's, not the blocks' default of 0.875; the caller's word is above both."""
    load = load_stages(wan22_folder, ("denoise",), dtype=torch.float32, device=CPU)
    told = load_stages(wan22_folder, ("denoise",), dtype=torch.float32, device=CPU, configs={"boundary_ratio": 0.5})

    assert tiny_folder.BOUNDARY == load.configs["boundary_ratio"]
    assert told.configs["boundary_ratio"] == 0.5


def test_dtype_can_be_given_by_component(wan22_folder: Path) -> None:
    """A mapping names exceptions, and a model with mixed dtypes runs.

    It is near WanPipeline but not equal: in bfloat16 the library's blocks round the timestep, its pipeline does not.
    """
    dtypes = {"default": torch.bfloat16, "text_encoder": torch.float32}
    model = DenoiseModel.load(wan22_folder, dtype=dtypes)
    library = diffusers.WanPipeline.from_pretrained(wan22_folder, dtype=dtypes)
    library.set_progress_bar_config(disable=True)

    latents = unpack_hand_over(model.run(REQUEST))[0].values["latents"]

    assert "default=bfloat16 text_encoder=float32" == model.fingerprint.dtype
    assert torch.float32 == latents.dtype
    torch.testing.assert_close(theirs(library, REQUEST, "latent"), latents, atol=0.15, rtol=0)


def edit_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def first_shard(folder: Path, component: str = "transformer") -> Path:
    return min((folder / component).glob("*.safetensors"))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 16)


def drop_a_weight(path: Path) -> None:
    weights = load_file(path)
    weights.pop(min(weights))
    save_file(weights, path, metadata={"format": "pt"})


def pickles_only(folder: Path) -> None:
    for path in (folder / "vae").glob("*.safetensors*"):
        path.unlink()
    torch.save({}, folder / "vae" / "diffusion_pytorch_model.bin")


def variant_only(folder: Path) -> None:
    path = first_shard(folder, "text_encoder")
    path.rename(path.with_name("model.fp16.safetensors"))
    (folder / "text_encoder" / "model.safetensors.index.json").unlink(missing_ok=True)


def escape(index: Path) -> None:
    edit_json(index, lambda content: content["weight_map"].update(dict.fromkeys(content["weight_map"], "../x")))


BOTH = ("denoise", "decode")
INDEX = "model_index.json"
SHARD_INDEX = "diffusion_pytorch_model.safetensors.index.json"
# What is done to the folder, which stage notices, and what the error has to say.
DAMAGE: dict[str, tuple[Callable[[Path], object], tuple[str, ...], str]] = {
    "no-folder": (shutil.rmtree, BOTH, "is no folder"),
    "no-index": (lambda f: (f / INDEX).unlink(), BOTH, "has no model_index.json"),
    "index-cut-off": (lambda f: truncate(f / INDEX), BOTH, "cannot be read as JSON"),
    "index-is-a-list": (lambda f: (f / INDEX).write_text("[]"), BOTH, "holds no JSON object"),
    "no-transformer": (lambda f: shutil.rmtree(f / "transformer"), BOTH, "component transformer.*missing or empty"),
    "empty-vae": (
        lambda f: [path.unlink() for path in (f / "vae").iterdir()],
        BOTH,
        "component vae.*missing or empty",
    ),
    "no-shard": (lambda f: first_shard(f).unlink(), ("denoise",), r"component transformer.*00001.*is missing"),
    "shard-cut-off": (lambda f: truncate(first_shard(f)), ("denoise",), r"component transformer.*00001.*is damaged"),
    "shard-is-noise": (
        lambda f: first_shard(f).write_bytes(b"\xff" * 64),
        ("denoise",),
        r"component transformer.*00001.*is damaged",
    ),
    "no-weights": (lambda f: [p.unlink() for p in (f / "vae").glob("*.safe*")], ("decode",), "component vae: no diff"),
    "pickles-only": (pickles_only, ("decode",), "component vae.*pickles are refused"),
    "variant-only": (variant_only, ("denoise",), "component text_encoder.*model.fp16.safetensors.*without a variant"),
    "no-config": (lambda f: (f / "transformer_2/config.json").unlink(), ("denoise",), "transformer_2.*config.json"),
    "weight-left-out": (lambda f: drop_a_weight(first_shard(f)), ("denoise",), "component transformer.*lack 1 weights"),
    "other-shape": (
        lambda f: edit_json(f / "transformer/config.json", lambda c: c.update(ffn_dim=64)),
        ("denoise",),
        "component transformer.*cannot be loaded",
    ),
    "no-scheduler": (lambda f: shutil.rmtree(f / "scheduler"), ("denoise",), "component scheduler"),
    "no-tokenizer-file": (lambda f: [p.unlink() for p in (f / "tokenizer").iterdir()], ("denoise",), "tokenizer"),
    "null-in-index": (
        lambda f: edit_json(f / INDEX, lambda c: c.update(text_encoder=[None, None])),
        ("denoise",),
        "component text_encoder is not in the model index",
    ),
    "unknown-class": (
        lambda f: edit_json(f / INDEX, lambda c: c.update(vae=["diffusers", "NoSuchVae"])),
        BOTH,
        "names a class that is not there",
    ),
    "foreign-code": (
        lambda f: edit_json(f / INDEX, lambda c: c.update(vae=["subprocess", "Popen"])),
        BOTH,
        "component vae wants code from 'subprocess'",
    ),
    "shard-outside": (
        lambda f: escape(f / "transformer" / SHARD_INDEX),
        ("denoise",),
        "component transformer.*missing",
    ),
}
LOADERS: dict[str, Callable[[Path], object]] = {
    "denoise": lambda folder: DenoiseModel.load(folder, dtype=torch.float32),
    "decode": lambda folder: DecodeModel.load(folder, dtype=torch.float32),
}


HARMLESS_FOR_DECODE = [name for name, (_, who, _) in DAMAGE.items() if who == ("denoise",) and name != "no-config"]


@pytest.mark.parametrize(
    ("damage", "stage"), [(damage, stage) for damage, (_, stages, _) in DAMAGE.items() for stage in stages]
)
def test_damaged_folder_is_refused_at_start(damage: str, stage: str, own_folder: Path) -> None:
    """The error names the component or file; nothing is half loaded."""
    harm, _, message = DAMAGE[damage]
    harm(own_folder)

    with pytest.raises(ModelFolderError, match=message):
        LOADERS[stage](own_folder)


@pytest.mark.parametrize("damage", HARMLESS_FOR_DECODE)
def test_decode_does_not_need_what_denoise_needs(damage: str, own_folder: Path) -> None:
    """A decode process starts where weights of other components are broken or missing; it reads their configs only."""
    DAMAGE[damage][0](own_folder)

    assert DecodeModel.load(own_folder, dtype=torch.float32).family == "wan2.2-t2v"


def test_library_alone_would_go_on_without_the_component(own_folder: Path) -> None:
    """Why loading is our own: `load_components` leaves None where weights are missing, and says nothing."""
    shutil.rmtree(own_folder / "vae")
    pipe = diffusers.Wan22Blocks().init_pipeline(str(own_folder))
    pipe.load_components(names=["vae"])

    assert pipe.vae is None


def test_library_alone_does_not_know_every_family(own_folder: Path) -> None:
    """Why the table is our own: the library refuses VACE by its index."""
    edit_json(own_folder / INDEX, lambda content: content.update(_class_name="WanVACEPipeline"))
    with pytest.raises(ValueError, match="No pipeline blocks"):
        diffusers.ModularPipeline.from_pretrained(str(own_folder))


def test_unknown_family_is_refused_naming_the_known(own_folder: Path) -> None:
    """The error lists what the engine can run."""
    edit_json(own_folder / INDEX, lambda content: content.update(_class_name="FluxPipeline"))
    with pytest.raises(UnknownFamilyError, match=r"'FluxPipeline'.*WanPipeline"):
        DenoiseModel.load(own_folder, dtype=torch.float32)


def test_same_request_after_reload(wan22_folder: Path) -> None:
    """A request gives the same bytes from a model loaded again, and others with another seed."""
    first = DenoiseModel.load(wan22_folder, dtype=torch.float32).run(REQUEST)
    model = DenoiseModel.load(wan22_folder, dtype=torch.float32)

    assert first == model.run(REQUEST)
    assert first != model.run(replace(REQUEST, seed=4))
