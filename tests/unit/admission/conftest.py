"""One way to admit a body of few fields."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from vitascope.admission import Admitted, admit
from vitascope.catalog.demo import make_demo_entry
from vitascope.contracts.models import ModelEntry

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
Admit = Callable[..., Admitted]


@pytest.fixture
def admit_body() -> Admit:
    """Admits the fields that are given, with a prompt, against the demo model or another."""

    def run(entry: ModelEntry | None = None, **body: Any) -> Admitted:
        fields = {"prompt": "a red circle"} | body
        return admit(fields, entry or make_demo_entry(), tenant="default", now=NOW, drawn_seed=41)

    return run
