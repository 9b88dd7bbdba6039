"""What people see: progress of a job, tables, errors."""

import json
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from vitascope.cli.answers import Json
from vitascope.cli.exits import CommandError

out = Console()
err = Console(stderr=True)

MIN_SHORTENED = 16
"""Cells that a column which gives way keeps, however narrow the terminal is."""
WAITING = {"queued": "waiting", "running": "denoising", "decoding": "decoding", "encoding": "encoding"}


def print_json(value: Any) -> None:  # whatever JSON holds
    """One line of JSON on standard output, for programs."""
    print(json.dumps(value, ensure_ascii=False), flush=True)  # noqa: T201 (standard output is the interface)


def print_error(error: CommandError) -> None:
    """What happened, why, and what to do, on standard error."""
    what = f"{error.what} ({error.word})" if error.word else error.what
    err.print(Text.assemble(("error:", "bold red"), f" {what}"), soft_wrap=True)
    if error.why:
        err.print(f"  why: {error.why}", highlight=False, markup=False, soft_wrap=True)
    if error.fix:
        err.print(f"  fix: {error.fix}", highlight=False, markup=False, soft_wrap=True)


def print_table(columns: tuple[str, ...], rows: list[tuple[Any, ...]], *, shortens: bool = False) -> None:
    """One line a row on standard output, never folded; `-` where there is nothing.

    A terminal gets aligned columns, of which the last gives way to its width if `shortens`; programs get all of each
    cell, with a tab between two.
    """
    table = [columns, *(tuple(format_cell(cell) for cell in row) for row in rows)]
    if not out.is_terminal:
        for cells in table:
            print("\t".join(cells))  # noqa: T201 (standard output is the interface)
        return
    widths = [max(cell_len(cells[at]) for cells in table) for at in range(len(columns) - 1)]
    room = max(MIN_SHORTENED, out.width - sum(widths) - 2 * len(widths))
    for number, cells in enumerate(table):
        last = Text(cells[-1])
        if shortens:
            last.truncate(room, overflow="ellipsis")
        padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=False))
        out.print(Text("  ").join([*map(Text, padded), last]), style="" if number else "bold", soft_wrap=True)


def format_cell(value: Any) -> str:  # whatever JSON holds
    """A value in one line: text as it is but for white space and control characters, all else as compact JSON."""
    if value is None or value == "":
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return " ".join("".join(" " if unicodedata.category(char) == "Cc" else char for char in text).split())


class JobProgress:
    """A line that follows one job: stage, step of steps, steps a second, time left."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._line = progress.add_task("", total=None, stage="starting", detail="")
        self._plain = not progress.console.is_terminal
        self._last = ""

    def wait(self, text: str) -> None:
        """Something else is being waited for."""
        self._show(text, None, None, "")

    def job(self, job: Json) -> None:
        """The newest state of the job."""
        stage = str(WAITING.get(job["status"], job["status"]))
        step, steps, detail = job.get("step"), job.get("steps"), describe_pace(job)
        if job["status"] not in WAITING:
            step, steps, detail = None, None, ""
        elif job["status"] == "queued":
            step, steps, detail = None, None, str(job.get("reason") or "")
        self._show(stage, step, steps, detail)

    def _show(self, stage: str, step: int | None, steps: int | None, detail: str) -> None:
        self._progress.update(self._line, stage=stage, completed=step or 0, total=steps, detail=detail)
        count = f" {step}/{steps}" if steps and step is not None else ""
        text = f"{stage}{count}"
        if self._plain and text != self._last:  # no terminal: a line for each step, so that logs show progress too
            self._progress.console.print(f"{text} {detail}".rstrip(), highlight=False, markup=False)
        self._last = text


@contextmanager
def job_progress() -> Iterator[JobProgress]:
    """A progress line on standard error while the context lasts."""
    columns = (
        SpinnerColumn(), TextColumn("{task.fields[stage]}"), BarColumn(24),
        CountColumn(), TextColumn("{task.fields[detail]}", style="dim"),
    )  # fmt: skip
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        yield JobProgress(progress)


class CountColumn(TextColumn):
    """`step/steps`, or nothing while the total is not known."""

    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: Any) -> Any:  # rich's own types are wider than needed here
        """The text of the column."""
        self.text_format = "{task.completed:.0f}/{task.total:.0f}" if task.total else ""
        return super().render(task)


def describe_pace(job: Json) -> str:
    """Steps a second and the time that is left, as far as they are known."""
    parts = []
    if step_s := job.get("step_s"):
        parts.append(f"{1 / step_s:.2f} {'steps' if job['status'] == 'running' else 'frames'}/s")
    if (remaining_s := job.get("remaining_s")) is not None:
        parts.append(f"{format_seconds(remaining_s)} left")
    return ", ".join(parts)


def describe_stages(job: Json) -> str:
    """How long each stage took."""
    seconds_of = (job.get("result") or {}).get("stage_seconds", {})
    return ", ".join(f"{stage} {format_seconds(seconds)}" for stage, seconds in seconds_of.items())


def format_seconds(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 60:  # noqa: PLR2004 (a minute)
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
