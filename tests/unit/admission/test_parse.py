"""From bytes to an object: what is refused before any field is looked at."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.admission import compute_body_digest, parse_body
from vitascope.admission.parse import MAX_DEPTH
from vitascope.contracts.failures import FailureCode, VitascopeError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        pytest.param(b"", "Expecting value", id="empty"),
        pytest.param(b"[]", "Send an object", id="list"),
        pytest.param(b'"text"', "Send an object", id="string"),
        pytest.param(b"null", "Send an object", id="null"),
        pytest.param(b'{"prompt": "x"', "line 1", id="cut"),
        pytest.param(b"{'prompt': 'x'}", "line 1", id="python"),
        pytest.param(b'{"prompt": "x"} {}', "Extra data", id="two"),
        pytest.param(b'\xef\xbb\xbf{"prompt": "x"}', "BOM", id="byte-order-mark"),
        pytest.param(b'{"prompt": "\xff"}', "UTF-8", id="no-utf-8"),
        pytest.param('{"prompt": "x"}'.encode("utf-16"), "UTF-8", id="utf-16"),
        pytest.param(b'{"seed": 1, "seed": 2}', '"seed"', id="twice"),
        pytest.param(b'{"labels": {"a": "1", "a": "1"}}', '"a"', id="twice-inside"),
        pytest.param(b'{"guidance": NaN}', "NaN", id="nan"),
        pytest.param(b'{"guidance": Infinity}', "Infinity", id="infinity"),
        pytest.param(b'{"guidance": -Infinity}', "-Infinity", id="minus-infinity"),
        pytest.param(b'{"seed": ' + b"9" * 5000 + b"}", "digits", id="digits"),
        pytest.param(b'{"extra_params": ' + b"[" * 5000 + b"]" * 5000 + b"}", "nested", id="deep-lists"),
        pytest.param(b'{"a": ' * 5000 + b"1" + b"}" * 5000, "nested", id="deep-objects"),
        pytest.param(b"[" * 5000, "nested", id="deep-and-cut"),
        pytest.param(b'{"a": [' + b'"",' * 20_000 + b'""]}', "parts", id="many-parts"),
    ],
)
def test_bodies_that_are_no_clean_object_are_refused(content: bytes, word: str) -> None:
    """One code, and words that help."""
    with pytest.raises(VitascopeError) as caught:
        parse_body(content)
    assert FailureCode.INVALID_JSON is caught.value.code
    assert word in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b'"' + b'\\"' * 500_000, id="escapes"),
        pytest.param(b'{"a":"' + b"\\" * 1_000_000, id="backslashes"),
        pytest.param(b'"' * 1_000_000, id="quotes"),
        pytest.param(b"[]" * 500_000, id="brackets"),
    ],
)
def test_hostile_bodies_cost_little_time(content: bytes) -> None:
    """A body of the largest size is refused in much less than the second that a client is promised."""
    began_s = time.process_time()
    with pytest.raises(VitascopeError):
        parse_body(content)
    assert time.process_time() - began_s < 1


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_every_clean_object_is_read_as_it_was_written(body: dict[str, object]) -> None:
    """Strictness takes nothing from what is right, lone surrogates included: fields judge those."""
    assert body == parse_body(json.dumps(body).encode())


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    """A prompt may be full of them."""
    text = "[{" * 1000 + '\\"['
    assert {"prompt": text} == parse_body(json.dumps({"prompt": text}).encode())


def test_the_deepest_allowed_body_is_read() -> None:
    """The limit itself is inside."""
    content = b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH
    assert "a" in parse_body(content)


def test_the_digest_sees_what_is_said_and_not_how() -> None:
    """Spaces and the order of fields change nothing, values and their types do."""
    digest = compute_body_digest({"a": 1, "b": {"c": "é"}})
    assert digest == compute_body_digest(parse_body('{ "b" : {"c":"é"},\n "a":1}'.encode()))
    assert digest != compute_body_digest({"a": 1.0, "b": {"c": "é"}})
    assert digest != compute_body_digest({"a": True, "b": {"c": "é"}})
    assert 64 == len(compute_body_digest({"a": "\ud800"}))
