"""Ports in memory, and jobs that are put into the ledger."""

import pytest

from doors import World


@pytest.fixture
def world() -> World:
    """Ledger, bus, registry, store and clock in memory."""
    return World()
