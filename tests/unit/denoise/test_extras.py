"""What a request asks beyond the common fields, in the words of the blocks; and entries that promise too much."""

from typing import Any

import pytest

from able import make_able
from records import video_request
from vitascope.contracts.jobs import Lora
from vitascope.contracts.models import Extra, LatentEdit, Task
from vitascope.denoise.extras import check_declared, gather_extras

WEIGHT = {"control_weight": Extra(type="number")}
LORA: dict[str, Any] = {"has_lora": True, "lora_sources": ("/l/",)}


@pytest.mark.parametrize(
    ("changes", "extras"),
    [
        pytest.param({}, {}, id="none"),
        pytest.param({"extra_params": {"a": 1}}, {"a": 1}, id="extra"),
        pytest.param(
            {"control_type": "edge", "extra_params": {"edge": {"control_weight": 0.5}, "a": 1}},
            {"control_weight": 0.5, "a": 1},
            id="control-options",
        ),
        pytest.param({"control_type": "edge"}, {}, id="control-without-options"),
        pytest.param({"true_cfg_scale": 4.0}, {"true_cfg_scale": 4.0}, id="true-cfg"),
        pytest.param({"sound_duration_s": 2.0}, {"sound_duration": 2.0}, id="sound-duration"),
        pytest.param(
            {"lora": Lora(name="ink", path="/l/ink")},
            {"lora": {"name": "ink", "path": "/l/ink", "scale": 1.0}},
            id="lora",
        ),
    ],
)
def test_every_field_reaches_an_input(changes: dict[str, Any], extras: dict[str, Any]) -> None:
    """Under the input's name."""
    assert extras == gather_extras(video_request(**changes))


@pytest.mark.parametrize(
    ("tasks", "capabilities", "inputs"),
    [
        pytest.param((), {"extra_params": {"a": Extra(type="number")}}, {"a"}, id="extra"),
        pytest.param(
            (Task.CONTROL,),
            {"control_types": ("e",), "control_options": WEIGHT},
            {"control_weight", "control_videos"},
            id="o",
        ),
        pytest.param((), LORA, {"lora"}, id="lora"),
        pytest.param((), {"has_true_cfg": True}, {"true_cfg_scale"}, id="true-cfg"),
        pytest.param(
            (Task.EDIT,), {"latent_edit": LatentEdit()}, {"video_mask", "video_restore_mask", "source_video"}, id="edit"
        ),
        pytest.param((Task.I2V,), {"max_images": 1}, {"image"}, id="image"),
        pytest.param((Task.V2V,), {"max_videos": 1}, {"video"}, id="video"),
        pytest.param((Task.S2V,), {"max_audios": 1}, {"audio"}, id="audio"),
    ],
)
def test_a_promise_without_an_input_is_found_at_the_start(
    tasks: tuple[Task, ...], capabilities: dict[str, Any], inputs: set[str]
) -> None:
    """With the field and the input that is missing."""
    entry = make_able(*tasks, **capabilities)
    check_declared(entry, inputs | {"prompt"})
    for name in inputs:
        with pytest.raises(ValueError, match=rf"blocks have no input .*\b{name}\b"):
            check_declared(entry, inputs - {name})


def test_sound_masks_are_asked_of_models_with_sound() -> None:
    """And of no other."""
    inputs = {"video_mask", "video_restore_mask"}
    with pytest.raises(ValueError, match=r"no input audio_mask$"):
        check_declared(make_able(Task.EDIT, has_sound=True, latent_edit=LatentEdit()), inputs)


def test_a_plain_model_promises_nothing() -> None:
    """Whatever its blocks take."""
    check_declared(make_able(), set())
