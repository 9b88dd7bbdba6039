"""What a text says, however it is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.screen.spelling import clean, read_spellings


def texts(text: str) -> list[str]:
    return [spelling.text for spelling in read_spellings(text)]


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("WORD", id="capitals"),
        pytest.param("ｗｏｒｄ", id="full-width"),  # noqa: RUF001 (what is tested)
        pytest.param("ⓦⓞⓡⓓ", id="circled"),
        pytest.param("𝔀𝓸𝓻𝓭", id="mathematical"),  # noqa: RUF001 (what is tested)
        pytest.param("🆆🅾🆁🅳", id="squared"),
        pytest.param("wörd", id="accent"),
        pytest.param("w\u0336o\u0336r\u0336d\u0336", id="struck-through"),
        pytest.param("w\u200bor\u00add", id="invisible"),
        pytest.param("wоrd", id="cyrillic"),  # noqa: RUF001 (what is tested)
        pytest.param("wοrd", id="greek"),  # noqa: RUF001 (what is tested)
        pytest.param("ᴡᴏʀᴅ", id="small-capitals"),
        pytest.param("w0rd", id="digit"),
        pytest.param("(word)!", id="punctuation"),
        pytest.param("woooooord", id="drawn-out"),
    ],
)
def test_word_is_read(written: str) -> None:
    """One of the readings is the plain word."""
    assert "word" in texts(written)


@pytest.mark.parametrize("sign", ["a@b", "a$b", "@ab"])
def test_sign_before_a_letter_is_a_letter(sign: str) -> None:
    """Inside of a word and at its start; the other reading splits the word there."""
    expected = sign.replace("@", "a").replace("$", "s")
    assert expected in texts(sign)


@pytest.mark.parametrize(
    ("written", "expected"),
    [("a w o r d", "aword"), ("w.o.r.d", "word"), ("w_o_r_d", "word"), ("W-0-R-D", "w0rd"), ("x y", "")],
)
def test_letters_one_by_one_are_a_word(written: str, expected: str) -> None:
    """Three or more in a row; which one begins a word is not known, so they stay together."""
    assert expected in {spelling.spelt for spelling in read_spellings(written)}


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("ば", id="japanese-voicing"),
        pytest.param("कि", id="devanagari-vowel"),
        pytest.param("слон", id="cyrillic-word"),
    ],
)
def test_other_scripts_stay(written: str) -> None:
    """A mark of another script is part of its letter, and one reading is the text as it stands."""
    assert clean(written) == written
    assert written in texts(written)


def test_numbers_are_no_letters() -> None:
    """Digits count for letters only in a word that has some."""
    assert ["1080 by 720"] == texts("1080 by 720")


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    """No text breaks it; readings are few, and have single spaces between words."""
    spellings = read_spellings(text)
    assert 1 <= len(spellings) <= 6
    assert all("  " not in spelling.text and spelling.text == spelling.text.strip() for spelling in spellings)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a " * 2048, id="single-letters"),
        pytest.param("\ufdfa" * 1365, id="letters-that-unfold"),
        pytest.param("e\u0301" * 1365, id="accents"),
    ],
)
def test_longest_prompt_stays_small(text: str) -> None:
    """4,096 bytes, however they are made, give no more than 256 KiB to search."""
    assert sum(len(spelling.text) + len(spelling.spelt) for spelling in read_spellings(text)) < 256 * 1024
