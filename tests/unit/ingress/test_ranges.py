"""Ranges and conditions, pure."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.ingress.ranges import RangeUnsatisfiable, Span, Validators, is_unchanged, may_resume, parse_range

VALIDATORS = Validators('"abc"', datetime(2026, 1, 1, tzinfo=UTC))
DATE, LATER = "Thu, 01 Jan 2026 00:00:00 GMT", "Thu, 01 Jan 2026 00:00:01 GMT"


@pytest.mark.parametrize(
    ("header", "span"),
    [
        pytest.param(None, None, id="absent"),
        pytest.param("bytes=0-0", Span(0, 1), id="first-byte"),
        pytest.param("bytes=0-1023", Span(0, 100), id="past-the-end"),
        pytest.param("bytes=99-", Span(99, 1), id="from-the-last"),
        pytest.param("bytes=-1", Span(99, 1), id="last-byte"),
        pytest.param("bytes=-1000", Span(0, 100), id="more-than-all"),
        pytest.param("BYTES=5-6", Span(5, 2), id="unit-in-capitals"),
        pytest.param("bytes=5-2", None, id="backwards"),
        pytest.param("bytes=abc", None, id="word"),
        pytest.param("bytes=-", None, id="nothing"),
        pytest.param("bytes=0-0,5-6", None, id="two"),
        pytest.param("items=0-1", None, id="unit"),
        pytest.param("bytes=+1-2", None, id="sign"),
        pytest.param("bytes=1-2x", None, id="trailing"),
        pytest.param("bytes=" + "9" * 30 + "-", None, id="too-many-digits"),
    ],
)
def test_a_range_is_what_rfc_9110_says(header: str | None, span: Span | None) -> None:
    """Of a file of 100 bytes; what is not understood means the whole."""
    assert span == parse_range(header, 100)


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=100-200", "bytes=-0"])
def test_a_range_past_the_end_is_unsatisfiable(header: str) -> None:
    """Well written, but nothing is there."""
    with pytest.raises(RangeUnsatisfiable):
        parse_range(header, 100)


@given(st.text(max_size=30) | st.from_regex(r"bytes=\d{0,4}-\d{0,4}", fullmatch=True), st.integers(1, 1000))
def test_a_span_always_lies_in_the_file(header: str, size: int) -> None:
    """Whatever the header."""
    try:
        span = parse_range(header, size)
    except RangeUnsatisfiable:
        return
    if span is not None:
        assert 0 <= span.start < span.start + span.length <= size


@pytest.mark.parametrize(
    ("none_match", "since", "is_same"),
    [
        pytest.param('"abc"', None, True, id="tag"),
        pytest.param('W/"abc"', None, True, id="weak-tag"),
        pytest.param('"x", "abc"', None, True, id="one-of"),
        pytest.param("*", None, True, id="star"),
        pytest.param('"x"', None, False, id="other-tag"),
        pytest.param('"x"', LATER, False, id="tag-outranks-date"),
        pytest.param(None, DATE, True, id="date"),
        pytest.param(None, LATER, True, id="later-date"),
        pytest.param(None, "Wed, 31 Dec 2025 23:59:59 GMT", False, id="earlier-date"),
        pytest.param(None, "yesterday", False, id="no-date"),
        pytest.param(None, None, False, id="nothing"),
    ],
)
def test_what_the_client_has(none_match: str | None, since: str | None, *, is_same: bool) -> None:
    """304 exactly then."""
    assert is_same is is_unchanged(VALIDATORS, none_match, since)


@pytest.mark.parametrize(
    ("if_range", "may"),
    [
        pytest.param(None, True, id="absent"),
        pytest.param('"abc"', True, id="tag"),
        pytest.param('"x"', False, id="other-tag"),
        pytest.param('W/"abc"', False, id="weak-tag"),
        pytest.param(DATE, True, id="date"),
        pytest.param(LATER, False, id="other-date"),
        pytest.param("whenever", False, id="no-date"),
    ],
)
def test_whether_a_range_may_be_sent(if_range: str | None, *, may: bool) -> None:
    """Only of the very same content."""
    assert may is may_resume(VALIDATORS, if_range)


def test_a_file_without_a_date_has_only_its_tag() -> None:
    """No Last-Modified is made up."""
    undated = Validators('"abc"', None)
    assert undated.modified_text is None
    assert not is_unchanged(undated, None, DATE)
    assert not may_resume(undated, DATE)
