"""The examples of `docs/api.md`, run as they stand there against a whole pipeline."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import JOB_DEADLINE_S, Up

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8765"
RUNNERS = {
    "sh": ["bash", "-euo", "pipefail", "-c"],
    "python": [sys.executable, "-W", "ignore::DeprecationWarning", "-c"],
}
EXAMPLES = re.findall(r"^```(sh|python)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("language", "example", "file"),
    [
        pytest.param(*example, re.findall(r"\w+\.mp4", example[1])[-1], id=f"{number} {example[0]}")
        for number, example in enumerate(EXAMPLES)
    ],
)
def test_an_example_makes_its_video(up: Up, tmp_path: Path, language: str, example: str, file: str) -> None:
    """With the address of this pipeline for that of the page, and nothing else changed."""
    assert ADDRESS in example
    ran = subprocess.run(
        [*RUNNERS[language], example.replace(ADDRESS, up.url)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=JOB_DEADLINE_S,
        check=False,
    )
    assert 0 == ran.returncode, ran.stdout + ran.stderr
    assert b"ftyp" in (tmp_path / file).read_bytes()[:12]


def test_the_page_has_an_example_of_each_kind() -> None:
    """A shell, Python, and the SDK."""
    assert ["sh", "python", "python"] == [language for language, _ in EXAMPLES]
    assert "import OpenAI" in EXAMPLES[2][1]
