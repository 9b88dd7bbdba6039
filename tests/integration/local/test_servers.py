"""The two servers of a one-machine run: durable, private, the same after every restart."""

import asyncio
import io
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import nats
import psutil
import pytest
from minio import Minio
from minio.error import S3Error

from children import Reports
from vitascope.local import nats_server, probes, s3_server
from vitascope.local.errors import ChildFailedError, PortInUseError, ProgramError
from vitascope.local.folder import DataFolder
from vitascope.local.keeper import ChildState, Restarts
from vitascope.local.nats_server import NatsServer
from vitascope.local.ports import choose_free_ports, settle_ports
from vitascope.local.s3_server import REGION, S3Server
from vitascope.local.servers import Servers, start_servers
from vitascope.local.supervisor import Supervisor

OBJECT_SIZES_BYTES = (0, 10, 100_000, 5_000_000)


def open_s3(servers: Servers) -> Minio:
    keys = servers.credentials
    address = servers.s3_endpoint.removeprefix("http://")
    return Minio(address, keys.s3_access_key, keys.s3_secret_key, secure=False, region=REGION)


def put_objects(s3: Minio) -> None:
    s3.make_bucket("vitascope")
    for size in OBJECT_SIZES_BYTES:
        s3.put_object("vitascope", f"outputs/{size}", io.BytesIO(b"v" * size), size)


def read_objects(s3: Minio) -> list[bytes]:
    contents = []
    for size in OBJECT_SIZES_BYTES:
        with s3.get_object("vitascope", f"outputs/{size}") as answer:
            contents.append(answer.read())
    return contents


async def publish(servers: Servers, text: bytes) -> None:
    client = await connect(servers)
    stream = client.jetstream()
    await stream.add_stream(name="WORK", subjects=["work"])
    await stream.publish("work", text)
    await client.close()


async def read_messages(servers: Servers) -> list[bytes]:
    client = await connect(servers)
    stream = client.jetstream()
    count = (await stream.stream_info("WORK")).state.messages
    texts = [(await stream.get_msg("WORK", seq=number + 1)).data for number in range(count)]
    await client.close()
    return texts


async def connect(servers: Servers) -> nats.NATS:
    keys = servers.credentials
    return await nats.connect(servers.nats_url, user=keys.nats_user, password=keys.nats_password)


async def test_acknowledged_is_kept_over_crash_and_restart(folder: DataFolder, reports: Reports) -> None:
    """What both servers have acknowledged survives SIGKILL and a whole second run, at the same addresses."""
    async with Supervisor(folder, restarts=Restarts(first_delay_s=0.0), on_report=reports) as supervisor:
        servers = await start_servers(folder, supervisor)
        await publish(servers, b"first")
        await asyncio.to_thread(put_objects, open_s3(servers))
        for name, pid in [(report.child, report.pid) for report in supervisor.reports()]:
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await reports.wait_for(name, ChildState.ENDED)
            await reports.wait_for(name, ChildState.READY)
        await publish(servers, b"second")
        assert await read_messages(servers) == [b"first", b"second"]
        assert await asyncio.to_thread(read_objects, open_s3(servers)) == [b"v" * size for size in OBJECT_SIZES_BYTES]
    async with Supervisor(folder) as supervisor:
        assert servers == await start_servers(folder, supervisor)
        assert await read_messages(servers) == [b"first", b"second"]
        assert await asyncio.to_thread(read_objects, open_s3(servers)) == [b"v" * size for size in OBJECT_SIZES_BYTES]


async def test_servers_are_private(folder: DataFolder) -> None:
    """They listen on the loopback address only and let nobody in without the folder's credentials."""
    async with Supervisor(folder) as supervisor:
        servers = await start_servers(folder, supervisor)
        ports = json.loads((folder.run / "ports.json").read_text())
        pids = {report.pid for report in supervisor.reports()}
        sockets = [s for s in psutil.net_connections("inet") if s.pid in pids and s.status == psutil.CONN_LISTEN]
        # No server that nobody asked for: all of these ports, and none besides.
        assert {("127.0.0.1", port) for port in ports.values()} == {tuple(s.laddr) for s in sockets}
        async with probes.connect(ports["nats"]) as (reader, writer):
            await reader.readline()
            writer.write(b'CONNECT {"user": "vitascope", "pass": "wrong", "verbose": false}\r\nPING\r\n')
            assert await reader.readline() == b"-ERR 'Authorization Violation'\r\n"
        stranger = Minio(servers.s3_endpoint.removeprefix("http://"), "A" * 20, "b" * 40, secure=False, region=REGION)
        with pytest.raises(S3Error, match="InvalidAccessKeyId"):
            await asyncio.to_thread(stranger.list_buckets)
        assert (401, 401) == (
            (await probes.get(ports["filer"], "/buckets/x"))[0],
            (await probes.get(ports["volume"], "/1,01"))[0],
        )


async def test_wanted_port_that_is_taken_stops_the_start(folder: DataFolder) -> None:
    """The error names the port, and no server is started."""
    with socket.create_server(("127.0.0.1", choose_free_ports(1)[0])) as listener:
        port = listener.getsockname()[1]
        async with Supervisor(folder) as supervisor:
            with pytest.raises(PortInUseError, match=f"The port {port} for nats cannot be used"):
                await start_servers(folder, supervisor, wanted_ports={"nats": port})
            assert [] == supervisor.reports()


async def test_port_taken_at_the_last_moment_fails_the_start_with_the_servers_words(folder: DataFolder) -> None:
    """A port that another program takes after it was settled is named in the error."""
    ports = settle_ports(folder.run / "ports.json", nats_server.PORT_NAMES, {})
    spec = await NatsServer(folder, ports).plan_child()
    with socket.create_server(("127.0.0.1", ports["nats"])):
        async with Supervisor(folder, restarts=Restarts(max_failures=2, first_delay_s=0.0)) as supervisor:
            with pytest.raises(ChildFailedError, match=rf"(?s)nats does not stay up.*{ports['nats']}.*in use"):
                await supervisor.start(spec)


async def test_server_that_cannot_be_made_durable_fails(folder: DataFolder, tmp_path: Path) -> None:
    """An S3 server that would acknowledge before it has synced is not used."""
    program = tmp_path / "weed"
    program.write_text("#!/bin/sh\necho unknown command\n")
    program.chmod(0o755)
    server = S3Server(folder, dict.fromkeys(s3_server.PORT_NAMES, 1))
    with pytest.raises(ProgramError, match=r"cannot be told to sync.*unknown command"):
        await server._set_sync(program)


async def test_second_run_on_one_folder_is_refused(folder: DataFolder) -> None:
    """A second process gets no hold of the folder, and hears who has it."""
    code = "import sys; from pathlib import Path; from vitascope.local.folder import open_folder\n"
    code += "with open_folder(Path(sys.argv[1])): pass"
    second = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, str(folder.path)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, said = await second.communicate()
    assert second.returncode == 1
    assert f"a run with process id {os.getpid()} holds it. Stop that run" in said.decode()
