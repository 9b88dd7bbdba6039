"""A socket that is gone when the client writes to it or reads from it: the connection is made anew all the same."""

from typing import NoReturn

import pytest

from contract.waiting import until_true
from servers import RunningNats
from vitascope.adapters.jetstream import Connection
from vitascope.adapters.jetstream import connection as connection_module


async def test_an_error_while_the_client_closes_does_not_end_the_connection(
    nats_server: RunningNats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped finds its socket reset with writes still waiting: the client closes without a word."""
    monkeypatch.setattr(connection_module, "CLOSING_S", 0.05)
    async with Connection(nats_server.url) as connection:
        client = connection._client
        assert client is not None

        async def drain() -> None:
            client._transport._io_writer.transport.abort()
            client._pending.append(b"PING\r\n")
            client._pending_data_size = len(b"PING\r\n")
            raise ConnectionResetError("Connection lost")

        monkeypatch.setattr(client._transport, "drain", drain)
        await connection.send("anything", b"")
        await until_true(lambda: connection.epoch == 2 and connection.is_connected)
        await connection.flush()
        assert connection.is_connected


async def test_an_error_in_the_midst_of_reading_does_not_end_the_connection(nats_server: RunningNats) -> None:
    """Reset while writes wait: the client's reading ends, its close fails, and it tells nobody."""
    async with Connection(nats_server.url) as connection:
        client = connection._client
        assert client is not None

        async def drain() -> NoReturn:
            raise ConnectionResetError("Connection reset by peer")

        async def read(_size: int) -> NoReturn:
            client._pending.append(b"PING\r\n")
            client._pending_data_size = len(b"PING\r\n")
            client._transport.drain = drain
            raise ConnectionResetError("Connection reset by peer")

        client._transport.read = read
        await connection.flush()  # its answer ends the read that waits
        await until_true(lambda: connection.epoch == 2 and connection.is_connected)
        await connection.flush()
        assert connection.is_connected
