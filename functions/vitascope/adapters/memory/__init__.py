"""All ports in one process: for tests, and to read what the real adapters promise.

Nothing here is durable and nothing blocks. What is stored is stored as bytes, so that a value that could not travel
is found here as well.
"""

from vitascope.adapters.memory.broker import MemoryBroker
from vitascope.adapters.memory.objects import MemoryObjectStore
from vitascope.adapters.memory.timing import HeldTime

__all__ = ["HeldTime", "MemoryBroker", "MemoryObjectStore"]
