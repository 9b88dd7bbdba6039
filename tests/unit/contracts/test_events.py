"""CloudEvents in binary mode, and what they carry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import NOW, record_in
from vitascope.contracts.events import CloudEvent, WorkItem, from_headers, make_job_event, make_work_item, to_headers
from vitascope.contracts.flow import Stage, State

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
NAMES = st.from_regex(r"[a-z][a-z0-9]{0,18}", fullmatch=True).filter(
    lambda name: name not in {"id", "source", "type", "subject", "time", "specversion", "datacontenttype", "data"}
)


@given(TEXT, TEXT, TEXT, st.none() | TEXT, st.dictionaries(NAMES, TEXT, max_size=4))
def test_headers_round_trip(identity: str, source: str, kind: str, subject: str | None, more: dict[str, str]) -> None:
    """Any attribute comes back as it was, through headers that are plain visible ASCII."""
    event = CloudEvent(id=identity, source=source, type=kind, subject=subject, time=NOW, data={"a": 1}, extensions=more)
    headers = to_headers(event)
    assert event == from_headers(headers, {"a": 1})
    assert all(0x21 <= ord(c) <= 0x7E and c != '"' for value in headers.values() for c in value)


def test_percent_encoding_is_the_bindings() -> None:
    """The specification's own example of the encoding."""
    event = CloudEvent(id="Euro € 😀", source="/s", type="t")
    assert to_headers(event)["ce-id"] == "Euro%20%E2%82%AC%20%F0%9F%98%80"


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="no attributes"),
        pytest.param({"ce-specversion": "0.3", "ce-id": "1", "ce-source": "s", "ce-type": "t"}, id="old version"),
        pytest.param({"ce-specversion": "1.0", "ce-source": "s", "ce-type": "t"}, id="no id"),
        pytest.param({"ce-specversion": "1.0", "ce-id": "%FF", "ce-source": "s", "ce-type": "t"}, id="not UTF-8"),
    ],
)
def test_foreign_messages_are_refused(headers: dict[str, str]) -> None:
    """What is no CloudEvent 1.0 is an error, never a half-read event."""
    with pytest.raises(ValueError, match=r".+"):
        from_headers(headers, None)


def test_header_names_are_case_insensitive() -> None:
    """Servers and proxies may change the case of a header's name."""
    event = CloudEvent(id="1", source="/s", type="t", time=NOW)
    assert event == from_headers({name.title(): value for name, value in to_headers(event).items()}, None)


def test_work_item_names_job_stage_and_attempt() -> None:
    """Equal work has equal ids; another attempt has another, so a retry is never taken for a copy."""
    record = record_in(State.RUNNING)
    work = make_work_item(record, Stage.DENOISE)
    assert f"{record.id}:denoise:1" == work.to_event(NOW).id
    assert work == WorkItem.from_event(work.to_event(NOW))


def test_job_event_says_the_state_once() -> None:
    """The id is job, attempt and state: the same change announced twice is known as one."""
    record = record_in(State.SUCCEEDED)
    event = make_job_event(record, 42, NOW)
    assert (f"{record.id}:1:succeeded", "dev.vitascope.job.succeeded.v1", record.id) == (
        event.id,
        event.type,
        event.subject,
    )
