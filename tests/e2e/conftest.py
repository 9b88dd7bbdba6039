"""One pipeline for all end-to-end tests that leave it as it was."""

from collections.abc import Iterator

import pytest

from pipeline import Up, running_up


@pytest.fixture(scope="session")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A pipeline with one denoise group."""
    with running_up(tmp_path_factory.mktemp("up") / "data") as running:
        yield running
