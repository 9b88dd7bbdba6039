"""Reference media in the engine's words: pictures and sound, by the names of the inputs that the blocks have."""

from collections.abc import Collection, Sequence
from math import ceil
from typing import Any

import PIL.Image

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import Reference, ReferenceRole, VideoRequest
from vitascope.media.frames import load_frames, load_image, load_sound

CONTROL_VIDEOS, VIDEO, MASK = "control_videos", "video", "mask"
DRIVING_VIDEO, DRIVING_VIDEO_FPS = "driving_video", "driving_video_fps"
IMAGE, LAST_IMAGE, REFERENCE_IMAGES = "image", "last_image", "reference_images"
AUDIO, SOURCE_VIDEO, SOURCE_AUDIO, RATE_SUFFIX = "audio", "source_video", "source_audio", "_sample_rate"
GREY, WHITE = (127, 127, 127), (255, 255, 255)
"""White in a mask: made anew, conditioned on the control video."""

Media = dict[str, Any]  # whatever a block takes: images, lists of them, arrays


def read_references(request: VideoRequest, contents: Sequence[bytes], inputs: Collection[str]) -> Media:
    """What the references hold, by the names of the blocks' inputs. Masks of an edit are not media: see `edit`.

    Args:
        request: what to make; videos are cut to its number of frames.
        contents: of `request.references`, in their order.
        inputs: names of the inputs that the model's blocks have.

    Raises:
        VitascopeError: `request_unfit`: the model has no input for one of them.
    """
    pieces = list(zip(request.references, contents, strict=True))

    def pick(role: ReferenceRole) -> list[tuple[Reference, bytes]]:
        return [piece for piece in pieces if piece[0].role is role]

    media = _place_images([load_image(content) for _, content in pick(ReferenceRole.IMAGE)], inputs)
    for _, content in pick(ReferenceRole.VIDEO):
        media |= _place_video(request, content, inputs)
    for reference, content in pick(ReferenceRole.CONTROL):
        media |= _place_control(request, reference, content, inputs)
    for _, content in pick(ReferenceRole.SOURCE_VIDEO):
        name = _choose(inputs, SOURCE_VIDEO, VIDEO)
        media[name] = load_frames(content, request.num_frames)[0]
        if not pick(ReferenceRole.SOURCE_AUDIO) and SOURCE_AUDIO in inputs and _has_sound(request):
            media |= _place_sound(SOURCE_AUDIO, content, inputs)
    for role, name in ((ReferenceRole.AUDIO, AUDIO), (ReferenceRole.SOURCE_AUDIO, SOURCE_AUDIO)):
        for _, content in pick(role):
            media |= _place_sound(_choose(inputs, name), content, inputs)
    return media


def make_proof_media(size: tuple[int, int], num_frames: int, inputs: Collection[str]) -> Media:
    """Grey pictures for a model that makes nothing of text alone; `size` in pixels, width first."""
    grey = PIL.Image.new("RGB", size, GREY)
    media: Media = {IMAGE: grey, DRIVING_VIDEO: [grey] * num_frames}
    return {name: value for name, value in media.items() if name in inputs}


def _place_images(images: list[PIL.Image.Image], inputs: Collection[str]) -> Media:
    """One or more of a character or a thing, or the first frame and the last one."""
    if not images:
        return {}
    if IMAGE not in inputs:
        return {_choose(inputs, REFERENCE_IMAGES): images}
    media: Media = {IMAGE: images[0]}
    for image in images[1:]:
        if LAST_IMAGE in media:
            raise VitascopeError(FailureCode.REQUEST_UNFIT, "The model takes a first and a last image, and no third.")
        media[_choose(inputs, LAST_IMAGE)] = image
    return media


def _place_video(request: VideoRequest, content: bytes, inputs: Collection[str]) -> Media:
    """What to go on from; or motion to take over, at the rate at which it was taken."""
    if DRIVING_VIDEO not in inputs:
        return {_choose(inputs, VIDEO): load_frames(content, request.num_frames)[0]}
    frames, rate = load_frames(content)
    return {
        DRIVING_VIDEO: frames[: max(1, ceil(request.num_frames * rate / request.fps))],
        **({DRIVING_VIDEO_FPS: float(rate)} if DRIVING_VIDEO_FPS in inputs else {}),
    }


def _place_control(request: VideoRequest, reference: Reference, content: bytes, inputs: Collection[str]) -> Media:
    """As many frames as are to be made: what is too short stands still at its end."""
    if reference.media_type.startswith("image/"):
        frames = [load_image(content)]
    else:
        frames, _ = load_frames(content, request.num_frames)
    frames += frames[-1:] * (request.num_frames - len(frames))
    if CONTROL_VIDEOS in inputs:
        assert request.control_type is not None, "admission asks for the type"
        return {CONTROL_VIDEOS: {request.control_type: frames}}
    media: Media = {_choose(inputs, VIDEO): frames}
    if MASK in inputs:
        media[MASK] = [PIL.Image.new("RGB", frames[0].size, WHITE)] * len(frames)
    return media


def _place_sound(name: str, content: bytes, inputs: Collection[str]) -> Media:
    samples, rate_hz = load_sound(content)
    rate_name = name + RATE_SUFFIX
    return {name: samples, **({rate_name: rate_hz} if rate_name in inputs else {})}


def _has_sound(request: VideoRequest) -> bool:
    return any(reference.role is ReferenceRole.SOURCE_VIDEO and reference.has_audio for reference in request.references)


def _choose(inputs: Collection[str], *names: str) -> str:
    """The first of the names that the model's blocks have.

    Raises:
        VitascopeError: `request_unfit`, they have none.
    """
    for name in names:
        if name in inputs:
            return name
    raise VitascopeError(FailureCode.REQUEST_UNFIT, f"The model has no input {' or '.join(names)}.")
