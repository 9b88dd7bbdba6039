"""One way to admit a body of few fields."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from vitascope.admission import Admitted, admit
from vitascope.admission.admit import NO_MASKS
from vitascope.catalog.demo import make_demo_entry
from vitascope.contracts.jobs import Reference, ReferenceRole
from vitascope.contracts.models import ModelEntry

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
Admit = Callable[..., Admitted]


@pytest.fixture
def admit_body() -> Admit:
    """Admits the fields that are given, with a prompt, against the demo model or another."""

    def run(
        entry: ModelEntry | None = None,
        references: Sequence[Reference] = (),
        masks: Mapping[ReferenceRole, bytes] = NO_MASKS,
        **body: Any,
    ) -> Admitted:
        return admit(
            {"prompt": "a red circle"} | body,
            entry or make_demo_entry(),
            tenant="default",
            now=NOW,
            drawn_seed=41,
            references=references,
            masks=masks,
        )

    return run
