"""A dead letter holds what died, and always fits into a message."""

import pytest

from records import NOW
from vitascope.adapters.envelope import pack, unpack
from vitascope.contracts.events import EVENT_MAX_BYTES, CloudEvent
from vitascope.contracts.failures import Failure, FailureCode
from vitascope.contracts.flow import Stage
from vitascope.runtime.dead_letters import make_dead_letter

FAILURE = Failure.of(FailureCode.DECODE_FAILED, "(RuntimeError)", stage="decode")


def letter_of(data: object) -> CloudEvent:
    event = CloudEvent.model_validate({"id": "e1", "source": "/s", "type": "t", "subject": "vj_1", "data": data})
    return make_dead_letter(event, FAILURE, stage=Stage.DECODE, attempts=3, now=NOW)


def test_letter_holds_event_error_and_attempts() -> None:
    """What people need to see what happened, and to publish the event again."""
    letter = letter_of({"job": "vj_1"})
    assert isinstance(letter.data, dict)
    assert CloudEvent.model_validate(letter.data["event"]).data == {"job": "vj_1"}
    assert letter.data["error"] == FAILURE.model_dump(mode="json")
    assert letter.data["attempts"] == 3
    assert (letter.type, letter.subject) == ("dev.vitascope.dead.decode.v1", "vj_1")


def test_two_letters_about_one_event_have_one_id() -> None:
    """So that a repetition is known for a copy."""
    assert letter_of(None).id == letter_of(None).id


@pytest.mark.parametrize(
    "text", ["x", '"', "\\", "\n", "é", "😀"], ids=["plain", "quote", "slash", "line", "é", "emoji"]
)
@pytest.mark.parametrize("length", [1000, 10_000, 60_000])
def test_letter_of_a_large_event_fits_into_a_message(text: str, length: int) -> None:
    """Whatever the dead event was made of, the letter can be published."""
    headers, body = pack(letter_of(text * length))
    assert len(body) <= EVENT_MAX_BYTES
    assert unpack(headers, body).id == "e1:dead"
