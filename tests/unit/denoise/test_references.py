"""Stored media under the names that a model's blocks have for it, and all the way into a tiny model."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from media_files import png, ramp, sound, two_colours, video
from records import video_request
from unit.engine import tiny_folder
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import ObjectRef, Reference, ReferenceRole, VideoRequest
from vitascope.contracts.models import Task
from vitascope.denoise.modular import ModularDenoiser, to_inputs
from vitascope.denoise.references import make_proof_media, read_references
from vitascope.engine import DenoiseModel
from vitascope.media.clip import read_video
from vitascope.media.limits import MediaLimits

ROLES = ReferenceRole
"""Short for the tables below."""


def ask(*roles: ReferenceRole, media_type: str = "image/png", **fields: Any) -> VideoRequest:
    references = tuple(
        Reference(role=role, object=ObjectRef(key=f"k{at}", bytes=1, sha256="0" * 64), media_type=media_type)
        for at, role in enumerate(roles)
    )
    return video_request(**{"references": references, "num_frames": 5, "width": 32, "height": 32, **fields})


def film(folder: Path, num_frames: int, rate: Fraction = Fraction(24)) -> bytes:
    read_video(video(folder / "v", ramp(num_frames), rate=rate), folder / "out", MediaLimits())
    return (folder / "out").read_bytes()


def names(media: dict[str, Any]) -> dict[str, Any]:
    """The shape of it: how many pictures, or the size of one."""
    return {
        name: len(value) if isinstance(value, Sequence) else getattr(value, "size", value)
        for name, value in media.items()
    }


def test_first_and_last_image() -> None:
    """In the order in which they came."""
    red, turned = png(), png(two_colours().rotate(90, expand=True))
    media = read_references(ask(ROLES.IMAGE, ROLES.IMAGE), [red, turned], {"image", "last_image"})

    assert {"image": (40, 20), "last_image": (20, 40)} == names(media)


def test_reference_images() -> None:
    """For a model that takes any number."""
    request = ask(ROLES.IMAGE, ROLES.IMAGE, ROLES.IMAGE)

    assert {"reference_images": 3} == names(read_references(request, [png()] * 3, {"reference_images", "video"}))


def test_video_is_cut(tmp_path: Path) -> None:
    """To the frames that are to be made."""
    assert {"video": 5} == names(read_references(ask(ROLES.VIDEO), [film(tmp_path, 9)], {"video", "image"}))


def test_driving_video_keeps_its_rate(tmp_path: Path) -> None:
    """Five frames at 16 a second last as long as eight at 24; the image is another reference."""
    request = ask(ROLES.IMAGE, ROLES.VIDEO, fps=Fraction(16))
    media = read_references(
        request, [png(), film(tmp_path, 12)], {"image", "driving_video", "driving_video_fps", "video"}
    )

    assert {"image": (40, 20), "driving_video": 8, "driving_video_fps": 24.0} == names(media)


def test_control_of_a_type(tmp_path: Path) -> None:
    """Under its name, and as long as the video: its last frame stands still."""
    request = ask(ROLES.CONTROL, media_type="video/x-matroska", control_type="edge")
    media = read_references(request, [film(tmp_path, 3)], {"control_videos"})

    assert ["edge"] == list(media["control_videos"])
    frames = media["control_videos"]["edge"]
    assert (5, True, False) == (len(frames), frames[2] == frames[4], frames[1] == frames[2])


def test_control_by_an_image() -> None:
    """It stands still from the start; a model that edits makes everything anew."""
    media = read_references(ask(ROLES.CONTROL, control_type="depth"), [png()], {"video", "mask", "reference_images"})

    assert {"video": 5, "mask": 5} == names(media)
    assert [(255, 255, 255)] == [colour for _, colour in media["mask"][0].getcolors()]


def test_source_of_an_edit(tmp_path: Path) -> None:
    """With its own sound, if there is no other."""
    read_video(video(tmp_path / "v", sound_s=0.5), tmp_path / "out", MediaLimits())
    request = ask(ROLES.SOURCE_VIDEO)
    request = request.model_copy(update={"references": (request.references[0].model_copy(update={"has_audio": True}),)})
    inputs = {"source_video", "source_audio", "source_audio_sample_rate"}
    media = read_references(request, [(tmp_path / "out").read_bytes()], inputs)

    assert (5, 44_100) == (len(media["source_video"]), media["source_audio_sample_rate"])
    assert (2, np.float32) == (media["source_audio"].shape[0], media["source_audio"].dtype)


def test_sound(tmp_path: Path) -> None:
    """Float32, two channels, of any file that is stored."""
    media = read_references(ask(ROLES.AUDIO), [sound(tmp_path / "s").read_bytes()], {"audio"})

    assert ((2, 8000), np.float32) == (media["audio"].shape, media["audio"].dtype)


@pytest.mark.parametrize(
    ("roles", "inputs"),
    [
        pytest.param((ROLES.IMAGE,), {"video"}, id="no image"),
        pytest.param((ROLES.IMAGE, ROLES.IMAGE), {"image"}, id="no last image"),
        pytest.param((ROLES.IMAGE,) * 3, {"image", "last_image"}, id="third image"),
        pytest.param((ROLES.AUDIO,), {"image", "video"}, id="no sound"),
        pytest.param((ROLES.CONTROL,), {"image"}, id="no control"),
    ],
)
def test_no_input_for_it(roles: tuple[ReferenceRole, ...], inputs: set[str]) -> None:
    """Said, not dropped: the catalog's entry promised what the model cannot do."""
    with pytest.raises(VitascopeError) as caught:
        read_references(ask(*roles, control_type="edge"), [png()] * len(roles), inputs)

    assert FailureCode.REQUEST_UNFIT == caught.value.code


def test_masks_are_no_media() -> None:
    """Somebody else reads them."""
    assert {} == read_references(ask(ROLES.VIDEO_MASK), [b"[1]"], {"image", "video"})


@pytest.fixture(scope="module")
def i2v(tmp_path_factory: pytest.TempPathFactory) -> DenoiseModel:
    path = tmp_path_factory.mktemp("models") / "i2v"
    tiny_folder.save_i2v(path)
    return DenoiseModel.load(path, dtype=torch.float32)


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
def test_image_reaches_the_model(i2v: DenoiseModel) -> None:
    """A job with a stored image gives what the model gives for that image, and another image another video."""
    request = ask(
        ROLES.IMAGE, model="tiny", task=Task.I2V, prompt="a red circle", num_inference_steps=2, guidance_scale=4.0
    )
    picture = two_colours(32, 32)
    denoiser = ModularDenoiser({"tiny": i2v})

    def run(image: PIL.Image.Image) -> bytes:
        return denoiser.run(request, [png(image)], lambda *_: None, None)

    assert i2v.run(to_inputs(request, {"image": picture})) == run(picture)
    assert run(picture) != run(picture.rotate(90))


def test_model_of_images_can_be_proven(i2v: DenoiseModel) -> None:
    """Though text alone is nothing to it."""
    assert {"image": (64, 64)} == names(make_proof_media((64, 64), 9, i2v.input_names))
    ModularDenoiser({"tiny": i2v}).prove()
