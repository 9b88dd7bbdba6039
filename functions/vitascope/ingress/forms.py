"""Forms: multipart bodies read as they come, texts into memory, files into a folder, neither without a limit.

Names that clients give to files are kept as text for whoever wants to know a suffix; no path is made of one.
"""

import asyncio
import errno
import hashlib
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.ingress.errors import DoorError
from vitascope.ingress.rooms import Lease

if TYPE_CHECKING:  # the library has this name for type checkers only
    from python_multipart.multipart import MultipartCallbacks

FLUSH_BYTES = 1024 * 1024
"""Of a file, before they are written."""
MAX_NAME_CHARS = 128
_CLOSE = {"connection": "close"}  # the rest of the body is not read, so the connection cannot be used again
_PLAIN = frozenset({"", "7bit", "8bit", "binary"})


@dataclass(frozen=True)
class FormLimits:
    """What a form may hold.

    Attributes:
        max_parts: texts and files together.
        text_bytes: the most that a text of a field may have.
        file_bytes: the same for a file; None if the field takes none.
    """

    max_parts: int
    text_bytes: Callable[[str], int]
    file_bytes: Callable[[str], int | None]


@dataclass(frozen=True)
class Upload:
    """A file that has come whole; `name` and `media_type` are only claims of the client."""

    field: str
    path: Path
    name: str
    media_type: str
    bytes: int
    sha256: str


@dataclass
class Form:
    """What came: of a text that is repeated the last, of files all in their order."""

    texts: dict[str, str] = field(default_factory=dict)
    uploads: list[Upload] = field(default_factory=list)


async def read_form(request: Request, folder: Path, limits: FormLimits, *, disk: Lease, memory: Lease) -> Form:
    """Read a multipart body. Files lie in `folder`, which is the caller's to remove.

    Raises:
        VitascopeError: `invalid_request`: no form, or it broke off; `media_too_large` and `body_too_large`, as soon as
            that is known; `unknown_field`, a file under a name that takes none; `store_full`; as `Lease.take`.
    """
    boundary = parse_options_header(request.headers.get("content-type", ""))[1].get(b"boundary", b"")
    async with AsyncExitStack() as stack:
        try:
            sink = _Sink(folder, limits, disk, memory)
            parser = MultipartParser(boundary, sink.callbacks)
            stack.push_async_callback(sink.close)
            async for piece in request.stream():
                parser.write(piece)
                await sink.flush(FLUSH_BYTES)
            parser.finalize()
        except (FormParserError, ValueError) as error:
            raise _refuse("The body is not a valid multipart form.") from error
        except ClientDisconnect as error:  # nobody will read the answer
            raise _refuse("The body broke off.") from error
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
            raise VitascopeError(FailureCode.STORE_FULL, "There is no room for the upload.") from error
        if not sink.is_complete:
            raise _refuse("The form has no end.")
        return sink.form


class _Sink:
    """What the parser calls; a part is a text or a file from the end of its headers on."""

    def __init__(self, folder: Path, limits: FormLimits, disk: Lease, memory: Lease) -> None:
        self.form, self.is_complete = Form(), False
        self._folder, self._limits, self._disk, self._memory = folder, limits, disk, memory
        self._parts = 0
        self._headers: dict[str, str] = {}
        self._name, self._value = bytearray(), bytearray()
        self._field, self._text = "", bytearray()
        self._file: _FileInMaking | None = None
        self._done: list[_FileInMaking] = []

    @property
    def callbacks(self) -> "MultipartCallbacks":
        """By the parser's names."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda content, start, end: self._name.extend(content[start:end]),
            "on_header_value": lambda content, start, end: self._value.extend(content[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._open,
            "on_part_data": self._take,
            "on_part_end": self._end,
            "on_end": self._complete,
        }

    async def flush(self, least: int) -> None:
        """Write what has come of files, if it is so much, and finish those that are whole."""
        for file in self._done:
            await file.write_out()
            self.form.uploads.append(await asyncio.to_thread(file.finish))
        self._done.clear()
        if self._file is not None and len(self._file.waiting) >= least:
            await self._file.write_out()

    async def close(self) -> None:
        """Close files that are not whole."""
        for file in (*self._done, *filter(None, [self._file])):
            await asyncio.to_thread(file.close)

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > self._limits.max_parts:
            raise _too_large(FailureCode.BODY_TOO_LARGE, f"A form has at most {self._limits.max_parts} parts.")
        self._headers = {}

    def _end_header(self) -> None:
        self._headers[self._name.decode("latin-1").lower()] = self._value.decode("latin-1")
        self._name.clear()
        self._value.clear()

    def _open(self) -> None:
        kind, options = parse_options_header(self._headers.get("content-disposition", ""))
        if kind != b"form-data" or b"name" not in options:
            raise _refuse("A part of the form has no name.")
        if self._headers.get("content-transfer-encoding", "").strip().lower() not in _PLAIN:
            raise _refuse("A part of the form has a Content-Transfer-Encoding.")
        self._field = _decode(options[b"name"], "A field's name")
        if len(self._field) > MAX_NAME_CHARS:
            raise VitascopeError(FailureCode.UNKNOWN_FIELD, "Its name is very long.")
        self._text = bytearray()
        if b"filename" in options:
            self._field = self._field.removesuffix("[]")
            self._file = self._begin_file(options[b"filename"])

    def _begin_file(self, name: bytes) -> "_FileInMaking":
        most = self._limits.file_bytes(self._field)
        if most is None:
            raise VitascopeError(FailureCode.UNKNOWN_FIELD, "It takes no file.", param=_as_param(self._field))
        media_type = self._headers.get("content-type", "").partition(";")[0].strip().lower()
        path = self._folder / f"{self._parts:04d}"
        return _FileInMaking(
            self._field,
            path,
            name=name.decode("utf-8", "replace"),
            media_type=media_type,
            max_bytes=most,
            disk=self._disk,
        )

    def _take(self, content: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._file.add(content[start:end])
            return
        most = self._limits.text_bytes(self._field)
        if len(self._text) + end - start > most:
            raise _too_large(FailureCode.BODY_TOO_LARGE, f"The limit is {most} bytes.", self._field)
        self._memory.take(end - start)
        self._text += content[start:end]

    def _end(self) -> None:
        if self._file is None:
            self.form.texts[self._field] = _decode(bytes(self._text), self._field)
        elif self._file.is_something:
            self._done.append(self._file)
        self._file = None

    def _complete(self) -> None:
        self.is_complete = True


class _FileInMaking:
    def __init__(self, field: str, path: Path, *, name: str, media_type: str, max_bytes: int, disk: Lease) -> None:
        self.waiting = bytearray()
        self._field, self._path, self._name, self._media_type = field, path, name, media_type
        self._max_bytes, self._disk = max_bytes, disk
        self._bytes, self._digest = 0, hashlib.sha256()
        self._handle: BinaryIO | None = None

    @property
    def is_something(self) -> bool:
        """A browser sends a nameless file of no bytes for a field that was left empty."""
        return bool(self._bytes or self._name)

    def add(self, content: bytes) -> None:
        if self._bytes + len(content) > self._max_bytes:
            raise _too_large(FailureCode.MEDIA_TOO_LARGE, f"The limit is {self._max_bytes} bytes.", self._field)
        self._disk.take(len(content))
        self._bytes += len(content)
        self.waiting += content

    async def write_out(self) -> None:
        content = bytes(self.waiting)
        self.waiting.clear()
        await asyncio.to_thread(self._write, content)

    def finish(self) -> Upload:
        self.close()
        return Upload(self._field, self._path, self._name, self._media_type, self._bytes, self._digest.hexdigest())

    def close(self) -> None:
        if self._handle is not None:
            self._handle.close()

    def _write(self, content: bytes) -> None:
        if self._handle is None:
            self._handle = self._path.open("xb")
        self._handle.write(content)
        self._digest.update(content)


def _decode(content: bytes, what: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refuse(f"{what} is not UTF-8.", _as_param(what)) from error


def _as_param(name: str) -> str | None:
    return name if name.isidentifier() and name.isascii() else None


def _refuse(detail: str, param: str | None = None) -> DoorError:
    return DoorError(FailureCode.INVALID_REQUEST, detail, param=param, headers=_CLOSE)


def _too_large(code: FailureCode, detail: str, field: str = "") -> DoorError:
    return DoorError(code, detail, param=_as_param(field), headers=_CLOSE)
