"""The one socket that a process listens on."""

import socket


def open_listener(host: str, port: int) -> socket.socket:
    """A listening TCP socket on that address and no other; port 0 takes a free one.

    Raises:
        OSError: the address is taken or is not this machine's.
    """
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
