"""Failure codes: each says what happened, in a sentence of its own."""

import pytest

from vitascope.contracts.failures import FAILURES, Failure, FailureCode, FailureKind, VitascopeError


@pytest.mark.parametrize("code", FailureCode)
def test_every_code_has_a_sentence(code: FailureCode) -> None:
    """One to a few words make no sentence; it starts with a capital, ends with a full stop and fits on a line."""
    sentence = FAILURES[code].sentence
    assert sentence[0].isupper()
    assert sentence.endswith(".")
    assert 4 <= len(sentence.split()) <= 25
    assert "\n" not in sentence


def test_no_row_without_a_code_and_no_sentence_twice() -> None:
    """The table is complete, and each sentence tells its code from every other."""
    assert set(FailureCode) == set(FAILURES)
    assert len(FAILURES) == len({row.sentence for row in FAILURES.values()})


@pytest.mark.parametrize("code", FailureCode)
def test_an_error_has_its_codes_kind_and_sentence(code: FailureCode) -> None:
    """What is raised and what a record keeps say the same."""
    error = VitascopeError(code, "More words.", param="p")
    assert FAILURES[code].kind is error.kind
    assert f"{FAILURES[code].sentence} More words." == str(error)
    assert Failure(code=code, message=str(error), stage="decode") == Failure.of(code, error.detail, stage="decode")


def test_a_kept_failure_is_of_bounded_length() -> None:
    """A record has room for a thousand characters."""
    assert 1000 == len(Failure.of(FailureCode.DENOISE_FAILED, "x" * 5000).message)


def test_a_new_detail_free_error_is_the_sentence_alone() -> None:
    """No trailing blank."""
    assert FAILURES[FailureCode.CANCELLED].sentence == str(VitascopeError(FailureCode.CANCELLED))
    assert FailureKind.TERMINAL is FAILURES[FailureCode.CANCELLED].kind
