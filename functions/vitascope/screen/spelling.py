"""The spellings under which a rule looks for its words: what a text says, however it is written.

Case, width and style of letters, accents, invisible characters, look-alikes of other alphabets, digits and signs for
letters, letters drawn out or spelt one by one. All of it is removed from a copy; the text itself is never changed.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vitascope.screen.lookalikes import DIGITS, LOOKALIKES, SIGNS

MIN_SPELT = 3
"""So many single characters in a row are taken for a word that is spelt."""

_DRAWN_OUT = re.compile(r"([^\W\d_])\1{2,}")
_SIGN = re.compile(f"[{re.escape(''.join(SIGNS))}](?=[^\\W\\d_])")
_LETTER = re.compile(r"[^\W\d_]")
# Accents of Latin, Greek and Cyrillic. Marks of other scripts are parts of their letters and stay.
_ACCENTS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]")
_FILLERS = {0x115F: None, 0x1160: None, 0x2800: " "}
"""Letters and signs that show nothing: Hangul fillers, the empty Braille cell."""


@dataclass(frozen=True)
class Spelling:
    """One reading of a text.

    Attributes:
        text: its words, one space between two.
        spelt: words that were spelt letter by letter, where it is not known which letter begins one.
    """

    text: str
    spelt: str = ""


def read_spellings(text: str) -> tuple[Spelling, ...]:
    """Every reading of a text, each once: as it stands, and with letters for what looks like them."""
    plain = clean(text)
    readings = (split_words(plain), [_fold_digits(word) for word in split_words(_fold(plain))])
    spellings = (spelling for words in readings for spelling in _read_words(words))
    return tuple(dict.fromkeys(spellings))


def clean(text: str) -> str:
    """A text or a rule's word without what does not change what it says."""
    wide = unicodedata.normalize("NFKC", text).casefold()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", wide))
    seen = "".join(char for char in bare if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFC", seen.translate(_FILLERS))


def split_words(text: str) -> list[str]:
    """The words of a cleaned text: letters, digits, and the marks that some scripts write vowels with."""
    return "".join(char if char.isalnum() or unicodedata.category(char)[0] == "M" else " " for char in text).split()


def _fold(text: str) -> str:
    return _SIGN.sub(lambda sign: SIGNS[sign.group()], text.translate(LOOKALIKES))


def _fold_digits(word: str) -> str:
    return word.translate(DIGITS) if _LETTER.search(word) else word


def _read_words(words: Sequence[str]) -> Iterator[Spelling]:
    text, spelt = " ".join(words), " ".join(_join_spelt(words))
    yield Spelling(text, spelt)
    if _DRAWN_OUT.search(text + spelt):
        for kept in (r"\1", r"\1\1"):  # a letter that was drawn out stood there once or twice
            yield Spelling(_DRAWN_OUT.sub(kept, text), _DRAWN_OUT.sub(kept, spelt))


def _join_spelt(words: Sequence[str]) -> Iterator[str]:
    run: list[str] = []
    for word in (*words, "  "):
        if len(word) == 1:
            run.append(word)
            continue
        if len(run) >= MIN_SPELT:
            yield "".join(run)
        run.clear()
