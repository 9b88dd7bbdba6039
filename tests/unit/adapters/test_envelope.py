"""The form in which an event travels."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.adapters.envelope import pack, unpack
from vitascope.contracts.events import CloudEvent

TEXT = st.text(min_size=1, max_size=40)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(identity=TEXT, source=TEXT, subject=st.none() | TEXT, body=JSON)
def test_any_event_survives(identity: str, source: str, subject: str | None, body: object) -> None:
    """Headers hold only printable ASCII, and the event comes back equal."""
    now = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    event = CloudEvent(id=identity, source=source, type="t", subject=subject, time=now, data=body)  # type: ignore[arg-type]
    headers, payload = pack(event)
    assert all(value.isascii() and value.isprintable() and " " not in value for value in headers.values())
    assert event == unpack(headers, payload)


def test_oversized_body_is_refused() -> None:
    """64 KiB of data and not a byte more."""
    pack(CloudEvent(id="1", source="s", type="t", data="x" * (65536 - 2)))
    with pytest.raises(ValueError, match="65537 bytes"):
        pack(CloudEvent(id="1", source="s", type="t", data="x" * (65536 - 1)))


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (None, b"{}"),
        ({}, b"{}"),
        ({"ce-specversion": "1.0"}, b"{}"),
        ({"ce-specversion": "0.3", "ce-id": "1", "ce-source": "s", "ce-type": "t"}, b"{}"),
        ({"ce-specversion": "1.0", "ce-id": "%ff", "ce-source": "s", "ce-type": "t"}, b"{}"),
        ({"ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "ce-type": "t"}, b"not JSON"),
        ({"ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "ce-type": "t"}, b"\xff"),
        ({"ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "ce-type": "t"}, b"[" * 100_000),
    ],
    ids=["no headers", "empty", "no id", "old version", "bad UTF-8", "no JSON", "no text", "too deep"],
)
def test_what_is_no_event_is_a_value_error(headers: dict[str, str] | None, body: bytes) -> None:
    """Nothing but a CloudEvent in binary mode is taken for one."""
    with pytest.raises(ValueError):  # noqa: PT011 (its words differ by case)
        unpack(headers, body)
