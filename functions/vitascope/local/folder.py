"""The data folder of a one-machine run: where everything lies, who holds it, and the secrets made for it.

    nats/   JetStream's files             s3/    objects and their index
    logs/   one log a process, rotated    run/   lock, identity, credentials, ports, pid files, server configuration

The folder and all in it are for the owner only. Deleting it while nothing runs forgets the whole run.
"""

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from vitascope.local.errors import FolderError

RESTART_ROOM_BYTES = 64 * 1024**2
"""With less room left, a server that cannot write is not restarted: a new one could not write either."""
MIN_FREE_BYTES = 2 * 1024**3  # the S3 server turns read-only below 1 GiB; the rest is room for the first videos
SECRET_BYTES = 32


@dataclass(frozen=True)
class Credentials:
    """Secrets of this folder's servers, made once and kept."""

    nats_user: str
    nats_password: str
    s3_access_key: str
    s3_secret_key: str
    s3_internal_key: str  # between the parts of the S3 server

    def __repr__(self) -> str:
        return "Credentials(...)"  # no secret may reach a log by way of a dataclass's repr


@dataclass(frozen=True)
class DataFolder:
    """A data folder that this process holds; `open_folder` makes one.

    `folder_id` names the folder to its child processes: random, kept, known to no one else.
    """

    path: Path
    folder_id: str
    credentials: Credentials

    @property
    def nats(self) -> Path:
        """JetStream's storage."""
        return self.path / "nats"

    @property
    def s3(self) -> Path:
        """The S3 server's storage."""
        return self.path / "s3"

    @property
    def logs(self) -> Path:
        """Logs of all child processes."""
        return self.path / "logs"

    @property
    def run(self) -> Path:
        """What only the running processes need."""
        return self.path / "run"

    def has_restart_room(self) -> bool:
        """Whether the disk has room for a server to come up on."""
        return shutil.disk_usage(self.path).free >= RESTART_ROOM_BYTES


@contextmanager
def open_folder(path: Path, *, min_free_bytes: int = MIN_FREE_BYTES) -> Iterator[DataFolder]:
    """Creates the folder if need be, holds it exclusively until the context ends, and yields it.

    Raises:
        FolderError: It cannot be created or written, has less than `min_free_bytes` free, or another run holds it.
    """
    path = path.expanduser().resolve()  # one name for one folder, whatever links lead to it
    with _as_folder_error(path):
        for folder in (path, *(path / name for name in ("nats", "s3", "logs", "run"))):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(path):
        with _as_folder_error(path):
            _check_free_space(path, min_free_bytes)
            folder_id = _read_or_create(path / "run" / "id", lambda: secrets.token_hex(16))
            stored = json.loads(_read_or_create(path / "run" / "credentials.json", _draw_credentials))
            opened = DataFolder(path, folder_id, Credentials(**stored))
        yield opened


def write_private(path: Path, text: str) -> None:
    """Replaces the file in one step, readable by its owner only; after a crash it holds the old or the new text."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # A lock of the kernel, not the mere presence of a file: it goes with its process, however that ends.
    with _as_folder_error(path):
        lock = os.open(path / "run" / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 32).decode() or "unknown"
            raise FolderError(
                f"The data folder {path} is in use",
                why=f"a run with process id {holder} holds it",
                remedy="Stop that run, or give this one another folder",
            ) from None
        os.truncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)


@contextmanager
def _as_folder_error(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, TypeError) as error:
        raise FolderError(
            f"The data folder {path} cannot be used",
            why=str(error),
            remedy="Give a folder that you may write to; a damaged one can be deleted, and its jobs with it",
        ) from error


def _check_free_space(path: Path, min_free_bytes: int) -> None:
    free_bytes = shutil.disk_usage(path).free
    if free_bytes < min_free_bytes:
        raise FolderError(
            f"The disk of the data folder {path} is too full",
            why=f"{free_bytes / 1024**3:.1f} GiB are free and {min_free_bytes / 1024**3:.1f} GiB are needed",
            remedy="Make room, or give a folder on another disk",
        )


def _read_or_create(path: Path, create: Callable[[], str]) -> str:
    if not path.exists():
        write_private(path, create())
    return path.read_text(encoding="utf-8")


def _draw_credentials() -> str:
    drawn = Credentials(
        nats_user="vitascope",
        nats_password=secrets.token_urlsafe(SECRET_BYTES),
        s3_access_key=secrets.token_hex(10).upper(),
        s3_secret_key=secrets.token_urlsafe(SECRET_BYTES),
        s3_internal_key=secrets.token_hex(SECRET_BYTES),
    )
    return json.dumps(asdict(drawn), indent=1)
