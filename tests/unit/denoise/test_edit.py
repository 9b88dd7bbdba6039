"""A latent-mask edit as engines get it: both masks of picture and sound, under the names that the entry declares."""

import json
from fractions import Fraction

import numpy as np

from able import EDIT_BUCKET, make_reference
from records import video_request
from vitascope.contracts.jobs import ReferenceRole, VideoRequest
from vitascope.contracts.models import LatentEdit, Task
from vitascope.denoise.edit import read_edit

VIDEO, AUDIO = ReferenceRole.VIDEO_MASK, ReferenceRole.AUDIO_MASK
FILM, SOUND = ReferenceRole.SOURCE_VIDEO, ReferenceRole.SOURCE_AUDIO
FILE = b"\0film"


def _request(*roles: ReferenceRole, duration_s: float | None = None) -> VideoRequest:
    return video_request(
        task=Task.EDIT,
        width=EDIT_BUCKET.width,
        height=EDIT_BUCKET.height,
        num_frames=EDIT_BUCKET.num_frames,
        fps=Fraction(24),
        references=tuple(make_reference(role, duration_s=duration_s) for role in roles),
    )


def test_the_picture_has_a_model_mask_and_a_restore_mask() -> None:
    """A value a token, and a row of 24 channels of 2 x 2 cells a token."""
    tokens = np.zeros((7, 2, 3))
    tokens[6, 1, 2] = 0.3
    made = read_edit(_request(FILM, VIDEO), [FILE, json.dumps(tokens.tolist()).encode()], LatentEdit())
    assert {"video_mask", "video_restore_mask"} == made.keys()
    assert [0.0] * 41 + [77 / 256] == made["video_mask"].tolist()
    assert (42, 96) == made["video_restore_mask"].shape
    assert {np.float32(0.3)} == set(made["video_restore_mask"][41])
    assert 0.0 == made["video_restore_mask"][:41].max()


def test_the_sound_is_made_anew_where_its_source_ends() -> None:
    """22 frames are 37 latents a channel; half a second of source covers 20."""
    made = read_edit(_request(SOUND, AUDIO, duration_s=0.5), [FILE, b"0"], LatentEdit())
    assert {"audio_mask", "audio_restore_mask"} == made.keys()
    assert ([0.0] * 20 + [1.0] * 17) * 2 == made["audio_mask"].tolist()
    assert (74, 32) == made["audio_restore_mask"].shape
    assert made["audio_mask"].tolist() == made["audio_restore_mask"][:, 31].tolist()


def test_the_sound_of_a_film_counts_too() -> None:
    """And a source of its own before it; of unknown length it is taken to last."""
    by_film = read_edit(_request(FILM, AUDIO, duration_s=0.5), [FILE, b"0"], LatentEdit())
    assert 34 == by_film["audio_mask"].sum()
    assert 0 == read_edit(_request(FILM, AUDIO), [FILE, b"0"], LatentEdit())["audio_mask"].sum()


def test_the_entry_names_the_inputs() -> None:
    """Four of them."""
    edit = LatentEdit(video_mask_input="a", video_restore_input="b", audio_mask_input="c", audio_restore_input="d")
    assert {"a", "b", "c", "d"} == read_edit(_request(FILM, VIDEO, AUDIO), [FILE, b"0", b"0"], edit).keys()
    assert {} == read_edit(_request(), [], edit)
