"""Characters that are read as Latin letters: what a rule in Latin letters has to see through.

Only those that Unicode's compatibility forms (NFKC) leave as they are; full-width, circled, superscript and
mathematical letters become plain ones without a table. Shapes are of lower case, since text is folded before.
"""

import string

_SHAPES = {
    # Cyrillic, Greek, Armenian; Latin of other alphabets and of phonetics; small capitals
    "a": "аαɑɐᴀ",
    "b": "вβɓʙ",
    "c": "сϲɕᴄ",
    "d": "ԁɗđðᴅ",
    "e": "еҽєεɛəǝᴇ",
    "f": "ƒғꜰ",
    "g": "ԍɡցɢ",
    "h": "һнհɦħʜ",
    "i": "іӏιıɩɨɪ",
    "j": "јʝϳյᴊ",
    "k": "кқҝκᴋ",
    "l": "łɭʟ",
    "m": "мɱᴍ",
    "n": "ҥηռոɴ",
    "o": "оөοσօøᴏ",
    "p": "рҏρᴘ",
    "q": "ԛզǫ",
    "r": "ɾʀ",
    "s": "ѕʂꜱ",
    "t": "тτŧᴛ",
    "u": "υμսʊᴜ",
    "v": "ѵνʋᴠ",  # noqa: RUF001 (letters that look like another are what the table is of)
    "w": "ѡшԝωɯᴡ",
    "x": "хҳχ",
    "y": "уүұγʏ",
    "z": "ʐᴢ",
}
_LETTER_BLOCKS = (0x1F130, 0x1F150, 0x1F170, 0x1F1E6)
"""Where A to Z stand as squared, negative circled, negative squared letters, and as the letters of flags."""

LOOKALIKES: dict[int, str] = {
    **{ord(shape): letter for letter, shapes in _SHAPES.items() for shape in shapes},
    **{start + place: letter for start in _LETTER_BLOCKS for place, letter in enumerate(string.ascii_lowercase)},
}
"""From a character to the letter that it is read as; for `str.translate`."""

DIGITS: dict[int, str] = {ord(digit): letter for digit, letter in zip("01345789", "oieastbg", strict=True)}
"""Digits that stand for a letter inside of a word."""

SIGNS: dict[str, str] = {"@": "a", "$": "s", "€": "e", "!": "i", "|": "l", "+": "t"}
"""Signs that stand for a letter right before a letter."""
