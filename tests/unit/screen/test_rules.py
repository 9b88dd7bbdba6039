"""Rules: their file, and what they hit."""

import json
from pathlib import Path
from typing import Any

import pytest

from vitascope.screen.ports import Finding
from vitascope.screen.rules import BUILTIN, FILE_MAX_BYTES, Rule, RuleScreen, RulesInvalid, load_rules

GOOD: dict[str, Any] = {"id": "r1", "category": "fruit", "words": [["apple"]]}


def rule(**changes: Any) -> Rule:
    return Rule.model_validate(GOOD | changes)


async def hits(text: str, *rules: Rule) -> str | None:
    finding = await RuleScreen(rules).check([text])
    return finding.rule if finding is not None else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("an apple, red", True, id="word"),
        pytest.param("an ａｐｐｌｅ", True, id="another-spelling"),  # noqa: RUF001 (what is tested)
        pytest.param("a p p l e pie", True, id="spelt"),
        pytest.param("no a p p l e", True, id="spelt-after-a-word"),
        pytest.param("pineapple", False, id="end-of-a-longer-word"),
        pytest.param("apples", False, id="start-of-a-longer-word"),
        pytest.param("", False, id="nothing"),
    ],
)
async def test_whole_words_hit(text: str, *, expected: bool) -> None:
    """A word hits as a whole one, in any spelling."""
    assert ("r1" if expected else None) == await hits(text, rule())


@pytest.mark.parametrize(
    ("word", "text", "expected"),
    [
        pytest.param("apple*", "apples", True, id="start"),
        pytest.param("*apple", "pineapple", True, id="end"),
        pytest.param("*苹果*", "红苹果树", True, id="inside"),
        pytest.param("apple tree", "an apple-tree", True, id="phrase"),
        pytest.param("apple tree", "tree apple", False, id="phrase-in-another-order"),
        pytest.param("ÄPFEL", "apfel", True, id="the-rule-is-cleaned-too"),
        pytest.param("рот", "рот", True, id="a-rule-in-cyrillic"),
        pytest.param("рот", "a pot", False, id="and-not-what-it-looks-like"),
    ],
)
async def test_ways_to_write_a_word(word: str, text: str, *, expected: bool) -> None:
    """Stars, phrases, other alphabets."""
    assert ("r1" if expected else None) == await hits(text, rule(words=[[word]]))


@pytest.mark.parametrize(
    ("text", "expected"), [("apple and knife", True), ("knife by an apple", True), ("apple apple", False)]
)
async def test_every_group_has_to_be_there(text: str, *, expected: bool) -> None:
    """Two groups: a word of each, in any order."""
    assert ("r1" if expected else None) == await hits(text, rule(words=[["apple", "pear"], ["knife"]]))


async def test_phrase_is_passed_over() -> None:
    """`unless` takes its phrase out, and nothing else."""
    passing = rule(unless=["apple pie"])
    assert await hits("an apple pie", passing) is None
    assert "r1" == await hits("an apple pie and an apple", passing)


async def test_expression_is_searched() -> None:
    """In the words with one space between two."""
    expression = rule(words=(), regex=r"\bred (apple|pear)s?\b")
    assert "r1" == await hits("Red,  APPLES", expression)
    assert await hits("red plums", expression) is None


async def test_first_rule_that_hits_any_text_counts() -> None:
    """The finding has the category for the client, and the rule for the log."""
    screen = RuleScreen([rule(), rule(id="r2", category="tools", words=[["knife"]])])
    assert Finding("rules", "fruit", "r1") == await screen.check(["a knife", "an apple"])
    assert await screen.check([]) is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param("{", "Invalid JSON", id="no-json"),
        pytest.param({"version": 2, "rules": [GOOD]}, "version", id="version"),
        pytest.param({"version": 1, "rules": []}, "rules", id="empty"),
        pytest.param({"version": 1, "rules": [GOOD, GOOD]}, "two rules r1", id="twice"),
        pytest.param({"version": 1, "rules": [GOOD | {"wrods": []}]}, "wrods", id="unknown-field"),
        pytest.param({"version": 1, "rules": [GOOD | {"regex": "x"}]}, "either words or a regex", id="both"),
        pytest.param({"version": 1, "rules": [GOOD | {"words": []}]}, "either words or a regex", id="neither"),
        pytest.param({"version": 1, "rules": [GOOD | {"words": [[]]}]}, "words", id="empty-group"),
        pytest.param({"version": 1, "rules": [GOOD | {"words": [["*"]]}]}, "letters and digits", id="only-a-star"),
        pytest.param({"version": 1, "rules": [GOOD | {"words": [["a*b"]]}]}, "letters and digits", id="inner-star"),
        pytest.param({"version": 1, "rules": [GOOD | {"words": (), "regex": "("}]}, "regular expression", id="regex"),
    ],
)
def test_wrong_file_is_refused(tmp_path: Path, content: object, says: str) -> None:
    """With the file's name and the place in it."""
    path = tmp_path / "rules.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(RulesInvalid, match=says) as refused:
        load_rules(str(path))
    assert str(path) in str(refused.value)


def test_missing_and_large_files_are_refused(tmp_path: Path) -> None:
    """Before anything of them is parsed."""
    with pytest.raises(RulesInvalid, match="No such file"):
        load_rules(str(tmp_path / "none.json"))
    large = tmp_path / "large.json"
    large.write_bytes(b" " * (FILE_MAX_BYTES + 1))
    with pytest.raises(RulesInvalid, match="larger than"):
        load_rules(str(large))


HARMLESS = [
    "a red circle moving right on a white background",
    "a naked mole rat with its baby",
    "children play in the park, visible to the naked eye",
    "a field of oilseed rape in bloom",
    "a sonata in a minor key for two flutes",
    "a mother cat and her kittens asleep",
    "a boxer hits the bag; the crowd cheers",
    "Essex and Sussex from above",
    "a therapist talks to a patient",
    "a wedding: bride and groom kiss on the beach",
]
HARMFUL = {
    "minors-named": "l0lic0n art",
    "minors-sexual": "a ｎａｋｅｄ schoolgirl",  # noqa: RUF001 (what is tested)
    "sexual-violence": "a woman is raped",
    "sexual-explicit": "p o r n o",
    "gore": "prisoners are BEHEADED",
}


@pytest.mark.parametrize("text", HARMLESS)
async def test_list_that_ships_lets_harmless_prompts_pass(text: str) -> None:
    """Also those that have a word of the list inside of another, or in a known harmless phrase."""
    assert await hits(text, *load_rules(BUILTIN)) is None


@pytest.mark.parametrize(("name", "text"), HARMFUL.items(), ids=HARMFUL)
async def test_list_that_ships_hits(name: str, text: str) -> None:
    """Each of its rules has an example."""
    assert name == await hits(text, *load_rules(BUILTIN))


def test_each_rule_that_ships_has_an_example() -> None:
    """So that none is there that nobody has seen hit."""
    assert [rule.id for rule in load_rules(BUILTIN)] == list(HARMFUL)
