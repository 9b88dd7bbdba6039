"""What the NATS server is told before it starts."""

import json
from pathlib import Path

from vitascope.local.folder import open_folder
from vitascope.local.nats_server import NatsServer


def test_configuration_is_durable_bounded_and_for_this_machine(tmp_path: Path) -> None:
    """Messages are synced, stores bounded, listeners on the loopback address, and nobody comes in unasked."""
    with open_folder(tmp_path, min_free_bytes=0) as folder:
        server = NatsServer(folder, {"nats": 4222, "nats-monitor": 8222})
        configuration = json.loads(server._compute_configuration())
        assert {
            "server_name": "vitascope-local",
            "host": "127.0.0.1",
            "port": 4222,
            "http": "127.0.0.1:8222",
            "max_payload": 1_048_576,
            "authorization": {"user": "vitascope", "password": folder.credentials.nats_password},
            "jetstream": {
                "store_dir": str(folder.nats),
                "max_memory_store": 268_435_456,
                "max_file_store": 17_179_869_184,
                "sync_interval": "always",
            },
        } == configuration
