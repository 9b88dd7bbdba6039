"""What the engine's tests share: one thread, no compiler, random numbers that no test leaves changed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from unit.engine import tiny_folder

HERE = Path(__file__).parent
# The libraries' own, on inputs that the engine does not choose.
LIBRARY_WARNINGS = (
    "ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning",
    "ignore:`torch.jit.script` is deprecated:FutureWarning",
    "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning",
    "ignore:flex_attention called without torch.compile:UserWarning",
    "ignore:_compile flag on create_block_mask:DeprecationWarning",
    "ignore:__array_wrap__ must accept context:DeprecationWarning",
)

torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            for line in LIBRARY_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(line))


@pytest.fixture(autouse=True)
def _own_random_numbers() -> Iterator[None]:
    with torch.random.fork_rng():
        yield


@pytest.fixture(autouse=True)
def _nothing_is_compiled() -> Iterator[None]:
    """Wan Animate 2 compiles its attention mask, which takes longer than all that is tested of it."""
    with torch.compiler.set_stance("force_eager"):
        yield


@pytest.fixture(scope="session")
def wan22_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder that tests read and do not change."""
    return tiny_folder.save(tmp_path_factory.mktemp("models") / "wan22")


@pytest.fixture
def own_folder(wan22_folder: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage."""
    return Path(shutil.copytree(wan22_folder, tmp_path / "wan22"))
