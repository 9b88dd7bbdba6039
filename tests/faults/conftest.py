"""One pipeline whose parts are killed; slow steps leave time to do it."""

from collections.abc import Iterator

import pytest

from pipeline import Up, running_up


@pytest.fixture(scope="session")
def slow_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A pipeline in which a step takes at least a fifth of a second and a checkpoint is made every second step."""
    slow = {"VITASCOPE_DENOISE__MIN_STEP_S": "0.2", "VITASCOPE_DENOISE__CHECKPOINT_EVERY": "2"}
    with running_up(tmp_path_factory.mktemp("slow") / "data", **slow) as running:
        yield running
