"""A data folder, and a record of what its children report."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from children import Reports
from servers import without_left_sockets
from vitascope.local.folder import DataFolder, open_folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataFolder]:
    with open_folder(tmp_path / "data", min_free_bytes=0) as opened, without_left_sockets(opened):
        yield opened


@pytest.fixture
def reports() -> Reports:
    return Reports()
