"""Standing in for a method for a while."""

import pytest

from vitascope.engine.replace import replaced


class Speaker:
    def say(self) -> str:
        return "mine"


def test_stands_in_and_goes() -> None:
    """Inside, the stand-in answers; afterwards the class's own method does, and the instance is as it was."""
    speaker = Speaker()
    with replaced(speaker, "say", lambda: "other"):
        assert speaker.say() == "other"

    assert speaker.say() == "mine"
    assert {} == vars(speaker)


def test_goes_after_an_error() -> None:
    """An error inside does not leave the stand-in behind."""
    speaker = Speaker()
    with pytest.raises(ValueError, match="inside"), replaced(speaker, "say", lambda: "other"):
        raise ValueError("inside")

    assert speaker.say() == "mine"


def test_nests() -> None:
    """An attribute of the instance's own comes back, not the class's."""
    speaker = Speaker()
    with replaced(speaker, "say", lambda: "outer"):
        with replaced(speaker, "say", lambda: "inner"):
            assert speaker.say() == "inner"
        assert speaker.say() == "outer"
