"""A world with webhooks."""

import pytest

from unit.publish.webhooks.world import HookWorld


@pytest.fixture
def hooks() -> HookWorld:
    """Ports and receivers in memory."""
    return HookWorld()
