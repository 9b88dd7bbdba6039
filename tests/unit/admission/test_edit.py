"""Latent-mask edits at the door: masks fit the clip, have their sources, and ask for nothing in vain."""

from collections.abc import Callable
from typing import Any

import pytest

from able import make_able, make_editor, make_reference
from vitascope.admission import Admitted
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import Reference, ReferenceRole
from vitascope.contracts.models import ModelEntry, Task

Admit = Callable[..., Admitted]
VIDEO, AUDIO = ReferenceRole.VIDEO_MASK, ReferenceRole.AUDIO_MASK
FILM, SOUND = ReferenceRole.SOURCE_VIDEO, ReferenceRole.SOURCE_AUDIO
FIELD = {VIDEO: "video_noise_mask", AUDIO: "audio_noise_mask", FILM: "source_video", SOUND: "source_audio"}
SOME, ONES = b"[[0, 1], [1, 1]]", b"[[1, 1], [1, 1]]"


def _admit(admit_body: Admit, masks: dict[ReferenceRole, bytes], *sources: Reference, entry: ModelEntry) -> Admitted:
    references = [*sources, *(make_reference(role) for role in masks)]
    named: dict[str, Any] = {FIELD[reference.role]: True for reference in references}
    return admit_body(entry, references, masks, **named)


@pytest.mark.parametrize(
    ("masks", "sources", "kept"),
    [
        pytest.param({VIDEO: SOME}, [make_reference(FILM)], {VIDEO, FILM}, id="picture"),
        pytest.param({AUDIO: b"0"}, [make_reference(SOUND)], {AUDIO, SOUND}, id="sound"),
        pytest.param({AUDIO: b"0"}, [make_reference(FILM, has_audio=True)], {AUDIO, FILM}, id="sound-of-a-film"),
        pytest.param(
            {VIDEO: SOME, AUDIO: b"0.5"},
            [make_reference(FILM), make_reference(SOUND)],
            {VIDEO, AUDIO, FILM, SOUND},
            id="both",
        ),
        pytest.param({VIDEO: ONES}, [], set(), id="ones-need-no-source"),
        pytest.param({VIDEO: ONES}, [make_reference(FILM)], set(), id="ones-keep-nothing"),
        pytest.param({VIDEO: b"1", AUDIO: b"1"}, [make_reference(FILM)], set(), id="both-ones"),
        pytest.param(
            {VIDEO: ONES, AUDIO: b"0"},
            [make_reference(FILM, has_audio=True)],
            {AUDIO, FILM},
            id="sound-alone-of-a-film",
        ),
    ],
)
def test_masks_and_their_sources_are_kept(
    admit_body: Admit, masks: dict[ReferenceRole, bytes], sources: list[Reference], kept: set[ReferenceRole]
) -> None:
    """As far as anything of the source is; without, the job is the plain one."""
    request = _admit(admit_body, masks, *sources, entry=make_editor()).request
    assert kept == {reference.role for reference in request.references}
    assert (Task.EDIT if kept else Task.T2V) is request.task


@pytest.mark.parametrize(
    ("masks", "sources", "param"),
    [
        pytest.param({VIDEO: SOME}, [], "source_video", id="picture-without-source"),
        pytest.param({AUDIO: b"0"}, [], "source_audio", id="sound-without-source"),
        pytest.param({AUDIO: b"0"}, [make_reference(FILM, has_audio=False)], "source_audio", id="silent-film"),
        pytest.param({AUDIO: b"0"}, [make_reference(FILM)], "source_audio", id="film-that-nobody-heard"),
        pytest.param({}, [make_reference(FILM)], "source_video", id="film-without-mask"),
        pytest.param({VIDEO: SOME}, [make_reference(FILM), make_reference(SOUND)], "source_audio", id="sound-no-mask"),
        pytest.param({VIDEO: b"[0, 0]"}, [make_reference(FILM)], "video_noise_mask", id="shape"),
        pytest.param({VIDEO: b"2"}, [make_reference(FILM)], "video_noise_mask", id="value"),
        pytest.param({AUDIO: b"[0, 0]"}, [make_reference(SOUND)], "audio_noise_mask", id="shape-of-sound"),
        pytest.param({AUDIO: b"null"}, [make_reference(SOUND)], "audio_noise_mask", id="null"),
    ],
)
def test_what_does_not_go_together_is_refused(
    admit_body: Admit, masks: dict[ReferenceRole, bytes], sources: list[Reference], param: str
) -> None:
    """At submit, by name."""
    with pytest.raises(VitascopeError) as caught:
        _admit(admit_body, masks, *sources, entry=make_editor())
    assert (FailureCode.INVALID_REQUEST, param) == (caught.value.code, caught.value.param)


def test_a_refused_shape_lists_those_of_the_clip(admit_body: Admit) -> None:
    """96 x 64, 22 frames: 7 latents, 4 x 6 cells, 2 x 3 tokens."""
    with pytest.raises(VitascopeError, match=r"\[42\], \[7, 2, 3\], \[7, 4, 6\]"):
        _admit(admit_body, {VIDEO: b"[0, 0]"}, make_reference(FILM), entry=make_editor())


@pytest.mark.parametrize("field", sorted(FIELD.values()))
def test_a_model_without_the_ability_refuses_each_field(admit_body: Admit, field: str) -> None:
    """By its name."""
    with pytest.raises(VitascopeError) as caught:
        admit_body(make_able(), **{field: True})
    assert (FailureCode.CAPABILITY_MISSING, field) == (caught.value.code, caught.value.param)
