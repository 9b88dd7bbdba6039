"""The frames model, on pictures that show nobody."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pictures import draw_paper, draw_shapes
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.encode.thumbnail import make_thumbnail
from vitascope.screen import model
from vitascope.screen.model import CATEGORY, Classifier, ModelMissing, StillsModel, load_classifier
from vitascope.screen.ports import Still

THRESHOLD = 0.8


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return load_classifier()


async def test_harmless_picture_passes(classifier: Classifier) -> None:
    """White paper is nothing."""
    still = Still(0, make_thumbnail(draw_paper(), 512))
    assert await StillsModel(classifier, THRESHOLD).check([still]) is None


async def test_frame_that_scores_is_found(classifier: Classifier) -> None:
    """The log is told the frame and the score, the client the category."""
    stills = [Still(0, make_thumbnail(draw_paper(), 512)), Still(9, make_thumbnail(draw_shapes(), 512))]
    finding = await StillsModel(classifier, THRESHOLD).check(stills)
    assert finding is not None
    assert CATEGORY == finding.category
    assert finding.rule.startswith("frame 9 scores 0.9")


@pytest.mark.parametrize(("threshold", "is_found"), [(0.5, True), (0.50001, False)])
async def test_threshold_itself_counts(threshold: float, *, is_found: bool) -> None:
    """A score of exactly the threshold is a finding."""

    class Half:
        def classify(self, image: bytes) -> Any:
            assert image == b"x"
            return SimpleNamespace(nsfw=0.5)

    assert is_found == (await StillsModel(Half(), threshold).check([Still(0, b"x")]) is not None)


async def test_picture_that_cannot_be_read_does_not_pass(classifier: Classifier) -> None:
    """It cannot be told, so nothing passes."""
    with pytest.raises(VitascopeError) as refused:
        await StillsModel(classifier, THRESHOLD).check([Still(0, b"no picture")])
    assert FailureCode.SCREEN_UNAVAILABLE is refused.value.code


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sets the setting without the extra is told what to install."""
    monkeypatch.setitem(sys.modules, model.PACKAGE, None)
    with pytest.raises(ModelMissing, match=r"vitascope\[screen\]"):
        load_classifier()


def test_missing_weights_are_no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the network nor another file is tried."""
    monkeypatch.setattr(model, "WEIGHTS", "none.onnx")
    with pytest.raises(ModelMissing, match=r"none\.onnx"):
        load_classifier()
