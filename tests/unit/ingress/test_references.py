"""Reference media at the door: uploads, data URLs and masks become stored references, all or none."""

import base64
from pathlib import Path
from typing import Any

import pytest

from doors import make_reader
from media_files import pixel_bomb, png, sound, video
from vitascope.adapters.memory import MemoryObjectStore
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import Reference, ReferenceRole
from vitascope.contracts.objects import ObjectClass, read_place
from vitascope.ingress.references import ReferenceReader, ReferenceSource
from vitascope.media.frames import load_image

JOB, TENANT = "vj_01JDXW4T7C8RZ3Q9V5N2M6K0AB", "default"
INVALID, TOO_LARGE = FailureCode.MEDIA_INVALID, FailureCode.MEDIA_TOO_LARGE


@pytest.fixture
def store() -> MemoryObjectStore:
    return MemoryObjectStore()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


@pytest.fixture
def reader(store: MemoryObjectStore, folder: Path) -> ReferenceReader:
    return make_reader(store, folder=folder, max_bytes=200_000)


def upload(path: Path, content: bytes, role: ReferenceRole | None = None, param: str = "input_reference") -> Any:
    path.write_bytes(content)
    return ReferenceSource(param, role, upload=path)


def data_url(content: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


async def read(reader: ReferenceReader, *sources: ReferenceSource) -> tuple[Reference, ...]:
    return await reader.read(sources, tenant=TENANT, job=JOB)


def is_empty(path: Path) -> bool:
    """Whether there is nothing in a folder, or in a file, which is there."""
    return not (list(path.iterdir()) if path.is_dir() else path.read_bytes())


async def refuse(reader: ReferenceReader, store: MemoryObjectStore, *sources: ReferenceSource) -> VitascopeError:
    with pytest.raises(VitascopeError) as caught:
        await read(reader, *sources)
    assert {} == store.objects
    assert is_empty(reader.folder)
    assert str(reader.folder.parent) not in str(caught.value)
    return caught.value


async def test_order_and_keys(reader: ReferenceReader, store: MemoryObjectStore, tmp_path: Path) -> None:
    """References come in the order of their sources, under keys of the job that no name of a client's is in."""
    escape = upload(tmp_path / "e", png())
    film = ReferenceSource("video_reference", ReferenceRole.VIDEO, upload=video(tmp_path / "..film.png", sound_s=0.3))
    tone = ReferenceSource("audio_reference", ReferenceRole.AUDIO, upload=sound(tmp_path / "s"))
    made = await read(reader, escape, film, tone)

    assert [ReferenceRole.IMAGE, ReferenceRole.VIDEO, ReferenceRole.AUDIO] == [reference.role for reference in made]
    assert [(40, 20, None, None), (48, 32, 12, True), (None, None, None, None)] == [
        (reference.width, reference.height, reference.num_frames, reference.has_audio) for reference in made
    ]
    assert ["00.", "01.", "02."] == [reference.object.key.rpartition("/")[2][:3] for reference in made]
    assert {reference.object.key for reference in made} == set(store.objects)
    for reference in made:
        place = read_place(reference.object.key)
        assert place is not None
        assert (ObjectClass.INPUTS, TENANT, JOB) == (place.kind, place.tenant, place.job)


async def test_nothing_is_left(reader: ReferenceReader, folder: Path, tmp_path: Path) -> None:
    """The folder is empty again; the upload is the parser's to remove."""
    source = upload(tmp_path / "a", png())
    await read(reader, source, ReferenceSource("image_reference", None, url=data_url(png())))

    assert (True, False) == (is_empty(folder), is_empty(tmp_path / "a"))


async def test_none_asked_for(reader: ReferenceReader) -> None:
    """Nothing to do."""
    assert () == await read(reader)


@pytest.mark.parametrize("prefix", ["data:image/png;base64,", "DATA:Image/PNG;Base64,", "data:image/png;a=b;base64,"])
async def test_data_url(prefix: str, reader: ReferenceReader, store: MemoryObjectStore) -> None:
    """In any case, and with parameters."""
    url = prefix + base64.b64encode(png()).decode()
    (made,) = await read(reader, ReferenceSource("image_reference", ReferenceRole.IMAGE, url=url))

    assert (255, 0, 0) == load_image(store.objects[made.object.key]).getpixel((0, 0))


@pytest.mark.parametrize(
    ("url", "code"),
    [
        pytest.param("data:,", FailureCode.INVALID_REQUEST, id="no base64"),
        pytest.param("data:image/png;base64", FailureCode.INVALID_REQUEST, id="no comma"),
        pytest.param("data:image/png;base64,", FailureCode.INVALID_REQUEST, id="empty"),
        pytest.param("data:image/png;base64,????", FailureCode.INVALID_REQUEST, id="foreign characters"),
        pytest.param("data:image/png;base64,AAA", FailureCode.INVALID_REQUEST, id="cut off"),
        pytest.param("data:image/png;base64,ää==", FailureCode.INVALID_REQUEST, id="no ASCII"),
        pytest.param(data_url(png(), "text/html"), FailureCode.INVALID_REQUEST, id="another kind"),
        pytest.param(data_url(b"\0" * 200_001), TOO_LARGE, id="too long"),
        pytest.param(data_url(b"no image"), INVALID, id="no image"),
        pytest.param(data_url(pixel_bomb()), TOO_LARGE, id="bomb"),
        pytest.param("/etc/passwd", FailureCode.ADDRESS_NOT_ALLOWED, id="path"),
        pytest.param("", FailureCode.ADDRESS_NOT_ALLOWED, id="nothing"),
    ],
)
async def test_url_refused(url: str, code: FailureCode, reader: ReferenceReader, store: MemoryObjectStore) -> None:
    """With the field that brought it."""
    error = await refuse(reader, store, ReferenceSource("image_reference[1]", ReferenceRole.IMAGE, url=url))

    assert (code, "image_reference[1]") == (error.code, error.param)


async def test_limit_of_bytes(reader: ReferenceReader, store: MemoryObjectStore, tmp_path: Path) -> None:
    """One byte more is refused, with the limit."""
    error = await refuse(reader, store, upload(tmp_path / "a", png() + b"\0" * 200_000))

    assert (TOO_LARGE, True) == (error.code, "200000 bytes" in error.detail)


async def test_all_or_none(reader: ReferenceReader, store: MemoryObjectStore, tmp_path: Path) -> None:
    """If one is bad, what was stored of the others is removed."""
    bad = upload(tmp_path / "b", b"no media", param="video_reference")
    error = await refuse(reader, store, upload(tmp_path / "a", png()), bad)

    assert (INVALID, "video_reference") == (error.code, error.param)


@pytest.mark.parametrize("role", [ReferenceRole.VIDEO, ReferenceRole.AUDIO, ReferenceRole.SOURCE_VIDEO])
async def test_role_is_held_to(
    role: ReferenceRole, reader: ReferenceReader, store: MemoryObjectStore, tmp_path: Path
) -> None:
    """An image is no video and no sound."""
    assert INVALID == (await refuse(reader, store, upload(tmp_path / "a", png(), role))).code


async def test_control_is_an_image_or_a_video(reader: ReferenceReader, tmp_path: Path) -> None:
    """And stays a control."""
    film = ReferenceSource("control_reference", ReferenceRole.CONTROL, upload=video(tmp_path / "v"))
    made = await read(reader, upload(tmp_path / "a", png(), ReferenceRole.CONTROL), film)

    assert [(ReferenceRole.CONTROL, "image/png"), (ReferenceRole.CONTROL, "video/x-matroska")] == [
        (reference.role, reference.media_type) for reference in made
    ]


async def test_mask(reader: ReferenceReader, store: MemoryObjectStore, tmp_path: Path) -> None:
    """Stored as it came."""
    (made,) = await read(reader, upload(tmp_path / "m", b"[[0, 1], [0.5, 1]]", ReferenceRole.VIDEO_MASK))

    assert (ReferenceRole.VIDEO_MASK, "application/json") == (made.role, made.media_type)
    assert b"[[0, 1], [0.5, 1]]" == store.objects[made.object.key]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        pytest.param(b"", FailureCode.INVALID_REQUEST, id="empty"),
        pytest.param(b"null", FailureCode.INVALID_REQUEST, id="null"),
        pytest.param(b"[" * 64, FailureCode.INVALID_REQUEST, id="deep"),
        pytest.param(b" " * (8 * 1024 * 1024) + b"1", TOO_LARGE, id="long"),
    ],
)
async def test_bad_mask(
    content: bytes, code: FailureCode, reader: ReferenceReader, store: MemoryObjectStore, tmp_path: Path
) -> None:
    """With its field."""
    error = await refuse(reader, store, upload(tmp_path / "m", content, ReferenceRole.AUDIO_MASK, "audio_noise_mask"))

    assert (code, "audio_noise_mask") == (error.code, error.param)


async def test_discarded(reader: ReferenceReader, store: MemoryObjectStore, tmp_path: Path) -> None:
    """For a request that was refused afterwards."""
    await reader.discard(await read(reader, upload(tmp_path / "a", png())))

    assert {} == store.objects


async def test_twins_do_not_overwrite_each_other(
    reader: ReferenceReader, store: MemoryObjectStore, tmp_path: Path
) -> None:
    """Two requests for one job: the same contents are one object, others are another."""
    first = await read(reader, upload(tmp_path / "a", png()))
    assert first == await read(reader, upload(tmp_path / "a", png()))
    await read(reader, upload(tmp_path / "a", png(load_image(png()).rotate(90))))

    assert 2 == len(store.objects)
