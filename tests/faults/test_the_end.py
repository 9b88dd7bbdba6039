"""The last test of this folder judges all that the others did to the pipelines that they share."""

import pytest

from faults.evidence import gather
from faults.injectors import Scene
from faults.invariants import check_all

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_every_invariant_holds_in_the_end(lanes: tuple[Scene, Scene]) -> None:
    """Looked at from outside, once all has come to rest."""
    for scene in lanes:
        evidence = await gather(scene.plant, scene.clients, scene.witness, scene.references, scene.spans)
        violations = check_all(evidence)
        assert [] == violations, "\n".join(map(str, violations))
