"""The text of a mask: JSON numbers and nothing else, bounded before anything is made of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.admission.mask_text import MASK_MAX_BYTES, MAX_LISTS, check_mask_upload, parse_mask
from vitascope.contracts.failures import FailureCode, VitascopeError


@pytest.mark.parametrize(
    ("content", "mask"),
    [
        pytest.param(b"1", 1.0, id="number"),
        pytest.param(b" [0, 0.5,\n1e0]\r\n", [0.0, 0.5, 1.0], id="flat"),
        pytest.param(b"[[0,1],[1,0]]", [[0.0, 1.0], [1.0, 0.0]], id="picture"),
        pytest.param(b"[" * 63 + b"0.25" + b"]" * 63, None, id="deepest"),
    ],
)
def test_numbers_keep_their_nesting(content: bytes, mask: object) -> None:
    """Up to 63 lists inside each other."""
    made = parse_mask("m", content)
    assert (np.full((1,) * 63, 0.25).tolist() if mask is None else mask) == made.tolist()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b" \n", id="blank"),
        pytest.param(b"null", id="null"),
        pytest.param(b"true", id="boolean"),
        pytest.param(b"[0, true]", id="boolean-inside"),
        pytest.param(b'"0.5"', id="text"),
        pytest.param(b"{}", id="object"),
        pytest.param(b"NaN", id="not-a-number"),
        pytest.param(b"[Infinity]", id="infinity"),
        pytest.param(b"1e999", id="infinite-by-size"),
        pytest.param(b"1.0000001", id="above"),
        pytest.param(b"[0, -1e-9]", id="below"),
        pytest.param(b"[]", id="no-numbers"),
        pytest.param(b"[[], []]", id="no-numbers-inside"),
        pytest.param(b"[[0], [0, 1]]", id="unequal"),
        pytest.param(b"[0, [1]]", id="mixed"),
        pytest.param(b"[0,]", id="not-json"),
        pytest.param(b"[0", id="open"),
        pytest.param(b"]]]", id="closed"),
        pytest.param(b"1" * 400, id="long-number"),
        pytest.param(b"1" * 5000, id="longer-number"),
        pytest.param(b"\xff\xfe0", id="utf-16"),
        pytest.param(b"0.5\x00", id="nul"),
        pytest.param(b"[" * 64 + b"0" + b"]" * 64, id="too-deep"),
        pytest.param(b"[" * 5_000_000, id="millions-deep"),
        pytest.param(b"[" + b"[0]," * MAX_LISTS + b"[0]]", id="too-many-lists"),
    ],
)
def test_anything_else_is_refused(content: bytes) -> None:
    """With the field's name."""
    with pytest.raises(VitascopeError) as caught:
        parse_mask("video_noise_mask", content)
    assert (FailureCode.INVALID_REQUEST, "video_noise_mask") == (caught.value.code, caught.value.param)
    assert len(str(caught.value)) < 300


def test_eight_mebibytes_and_not_one_more() -> None:
    """The limit is in the words."""
    content = b"0.5" + b" " * (MASK_MAX_BYTES - 3)
    check_mask_upload("m", content)
    with pytest.raises(VitascopeError, match="8388609 bytes; at most 8388608") as caught:
        check_mask_upload("m", content + b" ")
    assert FailureCode.MEDIA_TOO_LARGE is caught.value.code


@given(st.binary(max_size=60) | st.text(alphabet="[]01.,-+e \n", max_size=60).map(str.encode))
def test_no_file_makes_anything_but_a_mask_or_a_refusal(content: bytes) -> None:
    """Never another exception."""
    try:
        mask = parse_mask("m", content)
    except VitascopeError as error:
        assert FailureCode.INVALID_REQUEST is error.code  # noqa: PT017 (both ways are right)
        return
    assert 0.0 <= mask.min() <= mask.max() <= 1.0
