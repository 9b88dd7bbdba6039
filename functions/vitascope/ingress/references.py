"""Reference media at the door: from an upload, a data URL or an address to checked, upright, stored objects."""

import asyncio
import errno
import hashlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from vitascope.admission.mask_text import MASK_MAX_BYTES, check_mask_upload
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import Reference, ReferenceRole
from vitascope.contracts.objects import input_key
from vitascope.ingress.data_urls import PREFIX, save_data_url
from vitascope.media.limits import MediaKind, MediaLimits
from vitascope.media.reader import ReadMedia, read_media
from vitascope.outbound import Outbound
from vitascope.runtime.ports import ObjectStore
from vitascope.runtime.settings import ReferencesSettings

TURN_WAIT_S = 30.0
"""A request waits so long until another one's fetch or decoding is done."""
DIGEST_CHARS = 16
"""Of the contents, in the key: two requests that store for one job never overwrite each other's."""
MASK_ROLES = frozenset({ReferenceRole.VIDEO_MASK, ReferenceRole.AUDIO_MASK})
_KINDS = {
    None: MediaKind.PICTURE,
    ReferenceRole.IMAGE: MediaKind.IMAGE,
    ReferenceRole.VIDEO: MediaKind.VIDEO,
    ReferenceRole.AUDIO: MediaKind.AUDIO,
    ReferenceRole.CONTROL: MediaKind.PICTURE,
    ReferenceRole.SOURCE_VIDEO: MediaKind.VIDEO,
    ReferenceRole.SOURCE_AUDIO: MediaKind.AUDIO,
}
_DATA_KINDS = {MediaKind.PICTURE: ("image", "video")}
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ReferenceSource:
    """Where a piece of media is; exactly one of `upload` and `url` is given.

    Attributes:
        param: the field that brought it, for refusals: `input_reference`, `image_reference[1]`.
        role: what it is to the job. None is an image or a video, whichever it turns out to be, and gets that role.
        upload: a file that the body's parser wrote. It stays the parser's: read, not removed.
        url: an `http://` or `https://` URL, or a data URL in base64.
    """

    param: str
    role: ReferenceRole | None
    upload: Path | None = None
    url: str | None = None

    def __post_init__(self) -> None:
        assert (self.upload is None) != (self.url is None), "a source is an upload or a URL"
        assert self.role not in MASK_ROLES or self.upload is not None, "a mask is an upload"


class ReferenceReader:
    """Reads media and stores what jobs start from.

    Attributes:
        folder: where files are on their way. It is this process's own and goes with it, however it ends.
        max_bytes: of one piece of media.
    """

    def __init__(self, settings: ReferencesSettings, outbound: Outbound, store: ObjectStore, folder: Path) -> None:
        self.folder, self.max_bytes = folder, settings.max_bytes
        self._settings, self._outbound, self._store = settings, outbound, store
        # Apart, so that servers that answer slowly hold up nobody who brings a file.
        self._fetches, self._decodings = asyncio.Semaphore(settings.fetches), asyncio.Semaphore(settings.concurrency)
        self._limits = MediaLimits(
            max_pixels=settings.max_pixels,
            max_frames=settings.max_frames,
            max_duration_s=settings.max_duration_s,
            memory_bytes=settings.read_memory_bytes,
            timeout_s=settings.read_timeout_s,
        )

    async def read(self, sources: Sequence[ReferenceSource], *, tenant: str, job: str) -> tuple[Reference, ...]:
        """Fetch, check, make upright and store, in the order of the sources; all of them or none.

        Reading again for the same job does no harm to what was stored before. Whoever refuses the request after this
        calls `discard`; if it dies before, the janitor removes what has no job.

        Raises:
            VitascopeError: with the source's `param`: `address_not_allowed`, `fetch_failed`, `media_invalid`,
                `media_too_large`, `invalid_request` (a data URL or a mask that is none); and `store_unavailable`,
                `store_full`, `service_unavailable` (too many requests read media at the moment).
        """
        if not sources:
            return ()
        made: list[Reference] = []
        async with self._own_folder() as folder:
            try:
                for index, source in enumerate(sources):
                    made.append(await self._read_one(source, folder, index, tenant=tenant, job=job))
            except BaseException:
                await self.discard(made)
                raise
        return tuple(made)

    async def discard(self, references: Sequence[Reference]) -> None:
        """Remove what `read` stored for a request that made no job. If the store is away, the janitor does it later."""
        if references:
            with suppress(VitascopeError):
                await self._store.remove([reference.object.key for reference in references])

    async def _read_one(self, source: ReferenceSource, folder: Path, index: int, *, tenant: str, job: str) -> Reference:
        try:
            kind = _KINDS.get(source.role)
            if kind is None:
                return await self._store_mask(source, index, tenant=tenant, job=job)
            raw, out = folder / f"{index}.raw", folder / f"{index}.out"
            path = source.upload if source.upload is not None else await self._get(source.url or "", kind, raw)
            await self._check_length(path)
            async with _turn(self._decodings):
                made = await read_media(path, kind, out, self._limits)
            reference = await self._store_file(out, source.role, made, index, tenant=tenant, job=job)
        except VitascopeError as error:
            raise VitascopeError(error.code, error.detail, param=error.param or source.param) from error
        for done in (raw, out):
            await asyncio.to_thread(done.unlink, missing_ok=True)
        return reference

    async def _get(self, url: str, kind: MediaKind, into: Path) -> Path:
        """What a URL points to or holds, as a file."""
        most = self._settings.max_bytes
        if url[: len(PREFIX)].lower() == PREFIX:
            kinds = _DATA_KINDS.get(kind, (str(kind),))
            await asyncio.to_thread(save_data_url, url, into, max_bytes=most, kinds=kinds)
        else:
            async with _turn(self._fetches):
                await self._outbound.fetch(url, max_bytes=most, timeout_s=self._settings.fetch_timeout_s, into=into)
        return into

    async def _check_length(self, path: Path) -> None:
        length = (await asyncio.to_thread(path.stat)).st_size
        if length == 0:
            raise VitascopeError(FailureCode.MEDIA_INVALID, "It is empty.")
        if length > self._settings.max_bytes:
            raise VitascopeError(FailureCode.MEDIA_TOO_LARGE, f"The limit is {self._settings.max_bytes} bytes.")

    async def _store_file(
        self, path: Path, role: ReferenceRole | None, made: ReadMedia, index: int, *, tenant: str, job: str
    ) -> Reference:
        digest = await asyncio.to_thread(_digest, path)
        key = input_key(job, tenant, index, f"{digest}.{made.suffix}")
        return Reference(
            role=role or ReferenceRole(made.kind),
            object=await self._store.put_file(key, path, made.media_type),
            media_type=made.media_type,
            width=made.width,
            height=made.height,
            num_frames=made.num_frames,
            duration_s=made.duration_s,
            has_audio=made.has_audio,
        )

    async def _store_mask(self, source: ReferenceSource, index: int, *, tenant: str, job: str) -> Reference:
        """A mask is kept as it came: what its numbers mean depends on the clip."""
        assert source.role in MASK_ROLES, "every other role is in _KINDS"
        assert source.upload is not None, "a mask is an upload"
        content = await asyncio.to_thread(_read_start, source.upload, MASK_MAX_BYTES + 1)
        await asyncio.to_thread(check_mask_upload, source.param, content)
        key = input_key(job, tenant, index, f"{hashlib.sha256(content).hexdigest()[:DIGEST_CHARS]}.json")
        stored = await self._store.put(key, content, "application/json")
        return Reference(role=source.role, object=stored, media_type="application/json")

    @asynccontextmanager
    async def _own_folder(self) -> AsyncIterator[Path]:
        """A folder for one request, gone with it; a full disk becomes an error of ours."""
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="read-", dir=self.folder))
        try:
            yield folder
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise VitascopeError(FailureCode.STORE_FULL, "There is no room for the media.") from error
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


@asynccontextmanager
async def _turn(turns: asyncio.Semaphore) -> AsyncIterator[None]:
    """One of so many at a time; who waits too long is told so."""
    try:
        async with asyncio.timeout(TURN_WAIT_S):
            await turns.acquire()
    except TimeoutError as error:
        raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "Too many requests bring media at the moment.") from error
    try:
        yield
    finally:
        turns.release()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:DIGEST_CHARS]


def _read_start(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        return file.read(most)
