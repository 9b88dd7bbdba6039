"""The list of rules: words and expressions that a prompt may not contain, from a JSON file.

A rule has groups of words, and hits if every group has a word somewhere in the text; or it has an expression, which is
searched for. `*` at the start or end of a word stands for the rest of a longer one.
"""

import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator

from vitascope.contracts.frozen import Frozen
from vitascope.screen.ports import Finding
from vitascope.screen.spelling import MIN_SPELT, Spelling, clean, read_spellings, split_words

BUILTIN = "builtin"
"""Names the list that ships, in place of a file."""
FILE_MAX_BYTES = 1024 * 1024
MAX_RULES, MAX_GROUPS, MAX_WORDS = 1000, 8, 2000
"""Every prompt is held against all of it, inside of the door."""

_EDGE = re.compile(r"^\*|\*$")


class RulesInvalid(ValueError):
    """The file of rules is missing or wrong; says where."""


def _check_word(word: str) -> str:
    core = _EDGE.sub("", word)
    if not core or " ".join(split_words(clean(core))) != clean(core):
        raise ValueError(f"{word!r}: words have letters and digits, single spaces between them, * at an end")
    return word


def _check_regex(regex: str) -> str:
    try:
        re.compile(regex)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from error
    return regex


Word = Annotated[str, StringConstraints(min_length=1, max_length=128), AfterValidator(_check_word)]
Words = Annotated[tuple[Word, ...], Field(min_length=1, max_length=MAX_WORDS)]


class Rule(Frozen):
    """One rule; it has either `words` or a `regex`."""

    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    category: Annotated[str, StringConstraints(min_length=1, max_length=80)] = Field(
        description="what the client is told that the prompt was taken for"
    )
    words: tuple[Words, ...] = Field((), max_length=MAX_GROUPS, description="one word of each group must be there")
    regex: Annotated[str, StringConstraints(min_length=1, max_length=1000), AfterValidator(_check_regex)] | None = None
    unless: tuple[Word, ...] = Field((), max_length=MAX_WORDS, description="phrases that the rule passes over")

    @model_validator(mode="after")
    def _check_kind(self) -> "Rule":
        if bool(self.words) == (self.regex is not None):
            raise ValueError("a rule has either words or a regex")
        return self


class RuleFile(Frozen):
    """The file."""

    version: Literal[1]
    rules: tuple[Rule, ...] = Field(min_length=1, max_length=MAX_RULES)


class RuleScreen:
    """Holds texts against rules; a `PromptScreen`."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._matchers = [_Matcher(rule) for rule in rules]

    async def check(self, texts: Sequence[str]) -> Finding | None:
        """The first rule that hits any of the texts."""
        readings = [read_spellings(text) for text in texts]
        for matcher in self._matchers:
            if any(matcher.hits(spellings) for spellings in readings):
                return Finding("rules", matcher.rule.category, matcher.rule.id)
        return None


def load_rules(source: str) -> tuple[Rule, ...]:
    """The rules of a JSON file, or of the list that ships (`BUILTIN`).

    Raises:
        RulesInvalid: as said.
    """
    try:
        if source == BUILTIN:
            stored = files("vitascope.screen").joinpath("rules.json").read_bytes()
        else:
            with Path(source).open("rb") as file:
                stored = file.read(FILE_MAX_BYTES + 1)
    except OSError as error:
        raise RulesInvalid(f"the rules {source} cannot be read: {error.strerror}") from error
    if len(stored) > FILE_MAX_BYTES:
        raise RulesInvalid(f"the rules {source} are larger than {FILE_MAX_BYTES} bytes")
    try:
        rules = RuleFile.model_validate_json(stored).rules
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RulesInvalid(f"the rules {source}: {place}: {first['msg']}") from error
    names = [rule.id for rule in rules]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise RulesInvalid(f"the rules {source}: there are two rules {twice}")
    return rules


class _Matcher:
    """A rule, compiled."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._groups = [(_compile_words(group), _compile_spelt(group)) for group in rule.words]
        self._regex = re.compile(rule.regex) if rule.regex is not None else None
        self._unless = _compile_words(rule.unless) if rule.unless else None

    def hits(self, spellings: Iterable[Spelling]) -> bool:
        """Whether the rule hits a text, by any of its readings."""
        seen = [self._pass_over(spelling) for spelling in spellings]
        if self._regex is not None:
            return any(self._regex.search(spelling.text) for spelling in seen)
        return all(
            any(words.search(spelling.text) or (spelt and spelt.search(spelling.spelt)) for spelling in seen)
            for words, spelt in self._groups
        )

    def _pass_over(self, spelling: Spelling) -> Spelling:
        return Spelling(self._unless.sub("", spelling.text), spelling.spelt) if self._unless else spelling


def _compile_words(words: Iterable[str]) -> re.Pattern[str]:
    """Finds any of the words as a whole one."""
    return re.compile(f"(?<![^ ])(?:{'|'.join(sorted(map(_express, words)))})(?![^ ])")


def _compile_spelt(words: Iterable[str]) -> re.Pattern[str] | None:
    """Finds any of the words within letters that were spelt out; None if all are phrases or too short to be sure."""
    cores = (clean(_EDGE.sub("", word)) for word in words)
    long = sorted(re.escape(core) for core in cores if len(core) >= MIN_SPELT and " " not in core)
    return re.compile("|".join(long)) if long else None


def _express(word: str) -> str:
    rest = "[^ ]*"
    core = re.escape(clean(_EDGE.sub("", word))).replace(r"\ ", " ")
    return f"{rest if word[0] == '*' else ''}{core}{rest if word[-1] == '*' else ''}"
