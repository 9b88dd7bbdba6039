"""Encode 81 frames of 1280x720: this product against piping to `ffmpeg` and against diffusers' `export_to_video`.

    python bench/encode_720p.py [--rounds 5] [--frames 81] [--json FILE]

Every run is a fresh process, and the contenders take turns round by round, so that a busy machine is busy for all.
Wall time is that of the encode alone: imports and, for diffusers, loading the frames are left out, starting the ffmpeg
binary is not. CPU time is that of the process and its children. Peak memory is the process's high-water mark plus its
largest child's; both are alive together, and diffusers' includes the torch that it loads. Frames come from a raw file,
four at a time where the contender can take them so, while diffusers needs them all at once. Shown are the best round's
times, the highest peak, and the ratio to ours.

`export_to_video` offers no crf; with quality None it leaves ffmpeg's default, crf 23 at preset medium, and is held
against our row at crf 23. Its own default, quality 5, is constant qp: less work for another distribution of bits, shown
for the record. PSNR is of RGB, every tenth frame, by the matrix that each file names.

The ffmpeg binary is Debian's package: `apt-get install ffmpeg`. Contenders that are not installed are left out.
"""

import argparse
import importlib.util
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 1280, 720
FPS = Fraction(24)
CHUNK_FRAMES = 4
CRF, CRF_OF_EXPORT, PRESET = 18, 23, "medium"
SAMPLE_S = 0.1

Pixels = NDArray[np.uint8]
# Does what is not timed and returns what is.
Contender = Callable[[Path, Path, int], Callable[[], None]]


def main() -> None:
    """Run every contender in turn and print table and JSON."""
    arguments = parse_arguments()
    if arguments.contender:
        print(json.dumps(run_contender(arguments.contender, arguments.clip, arguments.out, arguments.frames)))
        return
    names = [name for name in CONTENDERS if is_installed(name)]
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        clip, out = Path(folder) / "clip.rgb", Path(folder) / "film.mp4"
        write_clip(clip, arguments.frames)
        for _ in range(arguments.rounds):
            for name in names:
                rows[name].append(call_self(name, clip, out, arguments.frames))
    report = {name: summarise(rounds) for name, rounds in rows.items()}
    print_table(report)
    text = json.dumps(report)
    if arguments.json:
        arguments.json.write_text(text)
    print(text)


def parse_arguments() -> argparse.Namespace:
    """Read the command line; `--contender` is for the child processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frames", type=int, default=81)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--clip", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def is_installed(name: str) -> bool:
    """Say what is missing, and how to get it, if a contender cannot run."""
    if "ffmpeg" in name and shutil.which("ffmpeg") is None:
        print(f"left out: {name} (apt-get install ffmpeg)")
        return False
    needed = ("diffusers", "imageio", "imageio_ffmpeg") if "export" in name or "quality" in name else ()
    missing = [module for module in needed if importlib.util.find_spec(module) is None]
    if missing:
        print(f"left out: {name} (pip install {' '.join(missing)})")
    return not missing


def write_clip(path: Path, frames: int) -> None:
    """A camera that glides over a soft landscape while a square crosses it, with a little grain."""
    rng = np.random.default_rng(0)
    land = make_landscape(rng, HEIGHT + frames, WIDTH + 3 * frames)
    with path.open("wb") as file:
        for index in range(frames):
            picture = land[index : index + HEIGHT, 3 * index : 3 * index + WIDTH].copy()
            left = (100 + index * 9) % (WIDTH - 200)
            picture[200:400, left : left + 200] = (200, 30, 40)
            picture += rng.integers(-1, 2, (HEIGHT, WIDTH, 1), np.int16)
            file.write(picture.clip(0, 255).astype(np.uint8).tobytes())


def make_landscape(rng: np.random.Generator, height: int, width: int) -> NDArray[np.int16]:
    """Return noise in six octaves, int16 (height, width, 3), mean 128: like nature, the finer the weaker."""
    land = np.full((height, width, 3), 128.0)
    for octave in range(6):
        step = 256 >> octave
        coarse = rng.normal(0, 40 / 1.7**octave, (height // step + 2, width // step + 2, 3))
        for axis, size in ((0, height), (1, width)):  # linear interpolation, one axis after the other
            at, rest = np.divmod(np.arange(size) / step, 1)
            low, high = (coarse.take(at.astype(int) + side, axis) for side in (0, 1))
            coarse = low + (high - low) * np.expand_dims(rest, tuple({0, 1, 2} - {axis}))
        land += coarse
    return land.astype(np.int16)


def call_self(name: str, clip: Path, out: Path, frames: int) -> dict[str, float]:
    """Run one contender in a fresh process."""
    command = [sys.executable, __file__, "--contender", name, "--clip", str(clip), "--out", str(out)]
    done = subprocess.run([*command, "--frames", str(frames)], check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def run_contender(name: str, clip: Path, out: Path, frames: int) -> dict[str, float]:
    """Measure one encode in this process, then compare its file with the clip."""
    encode = CONTENDERS[name](clip, out, frames)
    peak = ChildPeak()
    before_s, started_s = cpu_s(), time.perf_counter()
    encode()
    wall_s = time.perf_counter() - started_s
    used_s = cpu_s() - before_s
    peak_bytes = peak.stop() + high_water_bytes("self")
    psnr_db = compute_psnr_db(clip, out)
    return {
        "wall_s": wall_s,
        "cpu_s": used_s,
        "peak_bytes": peak_bytes,
        "file_bytes": out.stat().st_size,
        "psnr_db": psnr_db,
    }


def prepare_ours(clip: Path, out: Path, frames: int, crf: int = CRF) -> Callable[[], None]:
    """Chunk by chunk through the product's writer."""
    from vitascope.encode.codec import Mp4Writer  # noqa: PLC0415 - each process loads only its own contender
    from vitascope.encode.options import EncodeOptions  # noqa: PLC0415 - as above

    options = EncodeOptions(width=WIDTH, height=HEIGHT, num_frames=frames, fps=FPS, crf=crf, preset=PRESET)

    def encode() -> None:
        with Mp4Writer(out, options) as writer:
            for chunk in read_chunks(clip):
                writer.write_frames(chunk)

    return encode


def prepare_ours_as_export(clip: Path, out: Path, frames: int) -> Callable[[], None]:
    """Ours at the crf that `export_to_video` leaves to ffmpeg."""
    return prepare_ours(clip, out, frames, CRF_OF_EXPORT)


def prepare_ours_verified(clip: Path, out: Path, frames: int) -> Callable[[], None]:
    """Ours with the verification by decoding that precedes each publication, which no rival does."""
    from vitascope.encode.options import EncodeOptions  # noqa: PLC0415 - each process loads only its own contender
    from vitascope.encode.verify import verify_mp4  # noqa: PLC0415 - as above

    encode = prepare_ours(clip, out, frames)
    options = EncodeOptions(width=WIDTH, height=HEIGHT, num_frames=frames, fps=FPS, crf=CRF, preset=PRESET)

    def encode_and_verify() -> None:
        encode()
        verify_mp4(out, options)

    return encode_and_verify


def prepare_ffmpeg_pipe(clip: Path, out: Path, frames: int) -> Callable[[], None]:  # noqa: ARG001 - one face for all
    """Raw frames through a pipe to the ffmpeg binary, with the same codec settings, colour, tags and index first."""
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{WIDTH}x{HEIGHT}", "-r", str(FPS), "-i", "-"]
    colour = ["-vf", "scale=out_color_matrix=bt709:out_range=tv,format=yuv420p", "-color_range", "tv"]
    tags = [part for tag in ("colorspace", "color_primaries", "color_trc") for part in (f"-{tag}", "bt709")]
    codec = ["-c:v", "libx264", "-crf", str(CRF), "-preset", PRESET, "-movflags", "+faststart"]
    command = ["ffmpeg", "-v", "error", "-y", *source, *colour, *tags, *codec, str(out)]

    def encode() -> None:
        with subprocess.Popen(command, stdin=subprocess.PIPE) as binary:
            assert binary.stdin is not None
            for chunk in read_chunks(clip):
                binary.stdin.write(chunk.data)
        assert binary.returncode == 0

    return encode


def prepare_export(
    clip: Path,
    out: Path,
    frames: int,  # noqa: ARG001 - as above
    *,
    as_floats: bool = False,
    quality: float | None = None,
) -> Callable[[], None]:
    """Diffusers with PIL images, its lighter input, or float32 arrays, what its pipelines return by default."""
    from diffusers.utils import export_to_video  # noqa: PLC0415 - each process loads only its own contender
    from PIL import Image  # noqa: PLC0415 - as above

    pictures = [
        picture.astype(np.float32) / 255 if as_floats else Image.fromarray(picture.copy())
        for chunk in read_chunks(clip)
        for picture in chunk
    ]

    def encode() -> None:
        export_to_video(pictures, str(out), fps=int(FPS), quality=quality)

    return encode


CONTENDERS: dict[str, Contender] = {
    "ours": prepare_ours,
    "ours + verify": prepare_ours_verified,
    "pipe to ffmpeg": prepare_ffmpeg_pipe,
    "ours, crf 23": prepare_ours_as_export,
    "export_to_video, PIL": prepare_export,
    "export_to_video, float": partial(prepare_export, as_floats=True),
    "  its own quality 5": partial(prepare_export, quality=5.0),
}
# Whom a row is held against, where that is not "ours".
RIVALS = dict.fromkeys(("export_to_video, PIL", "export_to_video, float", "  its own quality 5"), "ours, crf 23")


def read_chunks(clip: Path) -> Iterator[Pixels]:
    """Yield uint8 (F, H, W, 3), four frames at a time, in memory that the next chunk overwrites."""
    slot = np.empty((CHUNK_FRAMES, HEIGHT, WIDTH, 3), np.uint8)
    with clip.open("rb", buffering=0) as file:
        while read_bytes := file.readinto(slot.data):
            yield slot[: read_bytes // slot[0].nbytes]


def cpu_s() -> float:
    """Seconds of CPU that this process and its finished children have used."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def high_water_bytes(pid: str) -> int:
    """Peak resident bytes of a process since its exec; getrusage would count what it inherits from its parent.

    A child that has not come to its exec yet still is its parent, and counts 0.
    """
    try:
        if pid != "self" and Path(f"/proc/{pid}/exe").samefile("/proc/self/exe"):
            return 0
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) * 1024 if lines else 0


class ChildPeak:
    """Watches the largest child of this process."""

    def __init__(self) -> None:
        self._peak_bytes = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="child-peak", daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """End watching and return the peak in bytes; 0 without children."""
        self._stopped.set()
        self._thread.join()
        return self._peak_bytes

    def _watch(self) -> None:
        while not self._stopped.wait(SAMPLE_S):
            for children in Path("/proc/self/task").glob("*/children"):
                for pid in children.read_text(encoding="ascii").split():
                    self._peak_bytes = max(self._peak_bytes, high_water_bytes(pid))


def compute_psnr_db(clip: Path, film: Path) -> float:
    """RGB PSNR of every tenth frame, converted by the matrix that the file names, BT.601 if it names none."""
    import av  # noqa: PLC0415 - not to count in a rival's memory

    errors = []
    with av.open(str(film)) as container:
        for index, frame in enumerate(container.decode(video=0)):
            if index % 10 == 0:
                matrix = "ITU709" if frame.colorspace == 1 else "ITU601"
                shown = frame.reformat(format="rgb24", src_colorspace=matrix, dst_color_range="JPEG").to_ndarray()
                meant = np.fromfile(clip, np.uint8, shown.size, offset=index * shown.size).reshape(shown.shape)
                errors.append(float(np.mean((shown.astype(np.float32) - meant) ** 2)))
    return float(10 * np.log10(255**2 / np.mean(errors)))


def summarise(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Best times, highest peak."""
    return {name: (max if name == "peak_bytes" else min)(row[name] for row in rounds) for name in rounds[0]}


def print_table(report: dict[str, dict[str, float]]) -> None:
    """One row a contender; ratios above 1 mean that it costs more than ours."""
    print(f"{'':24}{'wall s':>8}{'cpu s':>8}{'peak MB':>9}{'file MB':>9}{'PSNR dB':>9}   ratio wall / cpu / peak")
    for name, row in report.items():
        ours = report[RIVALS.get(name, "ours")]
        ratios = " / ".join(f"{row[key] / ours[key]:.2f}" for key in ("wall_s", "cpu_s", "peak_bytes"))
        peak_mb, file_mb = row["peak_bytes"] / 1e6, row["file_bytes"] / 1e6
        figures = f"{row['wall_s']:8.2f}{row['cpu_s']:8.2f}{peak_mb:9.0f}{file_mb:9.2f}{row['psnr_db']:9.2f}"
        print(f"{name:24}{figures}   {ratios}")


if __name__ == "__main__":
    main()
