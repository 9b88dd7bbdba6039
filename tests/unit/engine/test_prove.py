"""The self-test after memory ran out: a tiny piece of real work, on every family, that leaves nothing changed."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from unit.engine.tiny_families import MAKERS
from unit.engine.tiny_folder import REQUEST
from vitascope.decode.modular import ModularDecoder
from vitascope.denoise.modular import ModularDenoiser
from vitascope.engine import DecodeModel, DenoiseModel, DeviceMemoryError
from vitascope.engine.loading import LoadedStages


def decode_model(components: dict[str, Any]) -> DecodeModel:
    """A model of which only the components and the device matter."""
    return DecodeModel(cast("LoadedStages", SimpleNamespace(components=components, device=torch.device("cpu"))))


@pytest.mark.parametrize("family", MAKERS)
def test_every_family_can_prove_itself(family: str) -> None:
    """Zeros go through the VAE of each family, and its settings are as before."""
    vae = MAKERS[family]().components["vae"]
    before = {name: value for name, value in vars(vae).items() if name.startswith(("use_", "tile_"))}
    decode_model({"vae": vae}).prove()
    assert before == {name: value for name, value in vars(vae).items() if name.startswith(("use_", "tile_"))}


def test_nothing_to_decode_with_is_nothing_to_prove() -> None:
    """Families whose pixels travel have no VAE in the decode process."""
    decode_model({}).prove()


def test_device_without_memory_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof fails as a job would."""
    vae = MAKERS["hunyuan15"]().components["vae"]

    def run_out(*_args: object, **_kwargs: object) -> Iterator[torch.Tensor]:
        raise torch.OutOfMemoryError("the device is full")

    monkeypatch.setattr(vae, "decode", run_out)
    with pytest.raises(DeviceMemoryError):
        decode_model({"vae": vae}).prove()


def test_processes_prove_all_their_models(wan22_folder: Path) -> None:
    """A loaded folder makes one step and one decode, and a job before and after gives the same bytes."""
    denoise = DenoiseModel.load(wan22_folder, dtype=torch.float32)
    decode = DecodeModel.load(wan22_folder, dtype=torch.float32)
    before = denoise.run(REQUEST)
    ModularDenoiser({"a": denoise, "b": denoise}).prove()
    ModularDecoder({"a": decode}).prove()
    assert before == denoise.run(REQUEST)
