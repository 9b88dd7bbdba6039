"""Read a request of this API, in whichever of its three notations it comes."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fastapi import Request
from pydantic import JsonValue

from vitascope.admission import MEDIA_FIELDS, check_mask_upload, compute_body_digest, parse_body
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import ReferenceRole
from vitascope.ingress.body import read_bytes, read_json_bytes
from vitascope.ingress.door import Door
from vitascope.ingress.errors import DoorError
from vitascope.ingress.forms import FormLimits, Upload, read_form
from vitascope.ingress.media_fields import MASKS, find_max_bytes, gather_media
from vitascope.ingress.references import ReferenceSource
from vitascope.ingress.rooms import Lease
from vitascope.ingress.videos.form_fields import parse_urlencoded, read_fields
from vitascope.ingress.videos.own_fields import take_own
from vitascope.ingress.wishes import Wish

DOOR = "videos"
TEXT_MAX_BYTES = 1024 * 1024
"""Of a text in a form that is no media."""
READ_TIMEOUT_S = 900.0
"""For a whole body: 512 MiB at 5 Mbit/s. Who sends more slowly holds room that others need."""
_NOTATIONS = "Send multipart/form-data, application/json or application/x-www-form-urlencoded."
_CLOSE = {"connection": "close"}


@dataclass(frozen=True)
class Sent:
    """What came: the fields, and the files. They are there as long as the block lasts in which it was read."""

    body: dict[str, JsonValue]
    uploads: Sequence[Upload] = ()


@asynccontextmanager
async def reading(door: Door, request: Request, files: Collection[str] = MEDIA_FIELDS) -> AsyncIterator[Sent]:
    """The request's fields and files; the files, and the room that the request took, are gone after the block.

    Args:
        door: the door.
        request: as it came.
        files: the fields that take files.

    Raises:
        VitascopeError: `unsupported_media_type`, `invalid_json`, `invalid_request`; `body_too_large` and
            `media_too_large`, as soon as that is known; `service_unavailable`, there is no room at the moment.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="form-", dir=door.deps.references.folder))
    try:
        with door.disk.lease() as disk, door.memory.lease() as memory:
            async with _time_limit():
                if kind == "multipart/form-data":
                    sent = await _read_multipart(door, request, folder, files, disk=disk, memory=memory)
                elif kind == "application/x-www-form-urlencoded":
                    content = await read_bytes(request, door.deps.settings.max_body_bytes)
                    sent = Sent(read_fields(parse_urlencoded(content, door.deps.settings.max_parts)))
                elif kind == "application/json":
                    sent = Sent(await _read_json(door, request, memory))
                else:
                    raise VitascopeError(FailureCode.UNSUPPORTED_MEDIA_TYPE, _NOTATIONS, param="Content-Type")
            yield sent
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def make_wish(sent: Sent, deed: str) -> tuple[dict[str, JsonValue], Wish]:
    """The body for admission, and all that comes beside it.

    Args:
        sent: what came.
        deed: what is asked for: one key for two deeds is a conflict, even where the bodies are the same.

    Raises:
        VitascopeError: a refusal of a mask or of a field.
    """
    shown = take_own(sent.body)
    media = gather_media(shown.body, sent.uploads)
    sources, masks = list(media.sources), dict[ReferenceRole, bytes]()
    for field, upload in media.masks.items():
        content = await asyncio.to_thread(upload.path.read_bytes)
        await asyncio.to_thread(check_mask_upload, field, content)
        masks[MASKS[field]] = content
        sources.append(ReferenceSource(field, MASKS[field], upload=upload.path))
    return media.body, Wish(
        sources=sources,
        masks=masks,
        door=DOOR,
        digest=await asyncio.to_thread(_compute_digest, sent, deed),
        quality=shown.quality,
        wants_metrics=shown.wants_metrics,
    )


async def _read_multipart(
    door: Door, request: Request, folder: Path, files: Collection[str], *, disk: Lease, memory: Lease
) -> Sent:
    settings, max_bytes = door.deps.settings, door.deps.references.max_bytes

    def limit_text(field: str) -> int:
        return settings.max_inline_bytes if field.partition("[")[0] in MEDIA_FIELDS else TEXT_MAX_BYTES

    def limit_file(field: str) -> int | None:
        name = field.removesuffix("[]")
        return (find_max_bytes(name, max_bytes) or max_bytes) if name in files else None

    limits = FormLimits(settings.max_parts, limit_text, limit_file)
    form = await read_form(request, folder, limits, disk=disk, memory=memory)
    return Sent(await asyncio.to_thread(read_fields, form.texts), form.uploads)


async def _read_json(door: Door, request: Request, memory: Lease) -> dict[str, JsonValue]:
    """A JSON body; one that may be large takes room for what it says it has, or for the most that it may have."""
    settings = door.deps.settings
    declared = request.headers.get("content-length", "")
    length = int(declared) if declared.isascii() and declared.isdigit() and len(declared) <= 19 else None  # noqa: PLR2004
    if length is None or length > settings.max_body_bytes:
        memory.take(min(length or settings.max_inline_bytes, settings.max_inline_bytes))
    content = await read_json_bytes(request, settings.max_inline_bytes)
    if len(content) <= settings.max_body_bytes:
        return parse_body(content)
    return await asyncio.to_thread(parse_body, content)


def _compute_digest(sent: Sent, deed: str) -> str:
    """Of all that the request says, so that a key used twice for different files is found out."""
    files: list[JsonValue] = [[upload.field, upload.sha256] for upload in sent.uploads]
    body: dict[str, JsonValue] = {"deed": deed, "body": sent.body, "files": files}
    return compute_body_digest(body)


@asynccontextmanager
async def _time_limit() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            yield
    except TimeoutError as error:
        raise DoorError(
            FailureCode.INVALID_REQUEST, f"The body took longer than {READ_TIMEOUT_S:g} s.", headers=_CLOSE
        ) from error
