"""TCP ports on the loopback address.

A port is chosen at random from a range that no system hands out for outgoing connections (Linux starts at 32768, macOS
at 49152), so between choice and use only another program that asks for exactly this port can take it. Should that
happen, the server's start fails, and the next start chooses again.
"""

import json
import random
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from vitascope.local.errors import PortInUseError
from vitascope.local.folder import write_private

LOOPBACK = "127.0.0.1"
LOWEST_PORT = 20_000
HIGHEST_PORT = 32_767
MAX_TRIES_PER_PORT = 200  # with half of the range taken, 200 misses in a row have odds of 2 to the -200


def settle_ports(store: Path, names: Sequence[str], wanted: Mapping[str, int]) -> dict[str, int]:
    """Returns a free port for each name: the wanted one, else that of last time, else a new one; and remembers them.

    Args:
        store: The file that remembers, JSON; made if absent.
        names: What the ports are for.
        wanted: Ports that the user insists on, for some of the names.

    Raises:
        PortInUseError: A wanted port is taken, or no port is free.
    """
    assert set(wanted) <= set(names), f"no such ports: {set(wanted) - set(names)}"
    for name, port in wanted.items():
        check_port_free(port, name)
    before: dict[str, int] = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}
    settled = dict(wanted)
    for name in names:
        kept = before.get(name)
        if name not in wanted and kept is not None and kept not in settled.values() and is_port_free(kept):
            settled[name] = kept
    missing = [name for name in names if name not in settled]
    chosen = choose_free_ports(len(missing), avoid=settled.values())
    settled |= zip(missing, chosen, strict=True)
    write_private(store, json.dumps({**before, **settled}, indent=1))
    return settled


def choose_free_ports(count: int, *, avoid: Iterable[int] = ()) -> list[int]:
    """Returns `count` different ports on which a server can listen on 127.0.0.1 now, none of them in `avoid`.

    Raises:
        PortInUseError: No free port was found.
    """
    chosen: list[int] = []
    for _ in range(count):
        chosen.append(_choose_free_port({*avoid, *chosen}))
    return chosen


def is_port_free(port: int) -> bool:
    """Whether a server that sets SO_REUSEADDR, as they all do, can listen on 127.0.0.1:`port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Without this a port stays "taken" for a minute after its server has gone (TIME_WAIT).
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def check_port_free(port: int, purpose: str) -> None:
    """Passes if `port` is free.

    Raises:
        PortInUseError: It is not; the message names `purpose` and the port.
    """
    if not is_port_free(port):
        raise PortInUseError(
            f"The port {port} for {purpose} cannot be used",
            why=f"another program already listens on {LOOPBACK}:{port}, or the system does not allow this port",
            remedy="Stop that program, or choose another port",
        )


def _choose_free_port(avoid: Collection[int]) -> int:
    for _ in range(MAX_TRIES_PER_PORT):
        port = random.randint(LOWEST_PORT, HIGHEST_PORT)  # noqa: S311 - spreads the choice; guards no secret
        if port not in avoid and is_port_free(port):
            return port
    raise PortInUseError(
        "No free port was found",
        why=f"{MAX_TRIES_PER_PORT} ports between {LOWEST_PORT} and {HIGHEST_PORT} were all taken",
        remedy="Stop programs that listen on many ports",
    )
