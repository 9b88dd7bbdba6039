"""What the child takes from itself before it looks at a file."""

import ctypes
import resource
import sys
from dataclasses import dataclass

MAX_FILES = 64
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000


@dataclass(frozen=True)
class Bounds:
    """What this process may use: address space, CPU seconds, bytes of a file that it writes."""

    memory_bytes: int
    cpu_s: int
    file_bytes: int


def confine(bounds: Bounds) -> None:
    """Bound this process for the rest of its life; it can never loosen that again.

    Past its memory it gets `MemoryError`, past its CPU time a signal, past the file's length `OSError`. It leaves the
    network where the kernel lets it: in a container that forbids namespaces it stays, and then only the lack of any
    protocol keeps it from using it.
    """
    for kind, most in (
        (resource.RLIMIT_AS, bounds.memory_bytes),
        (resource.RLIMIT_CPU, bounds.cpu_s),
        (resource.RLIMIT_FSIZE, bounds.file_bytes),
        (resource.RLIMIT_NOFILE, MAX_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (least, least))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
