"""`vitascope jobs …`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vitascope.cli.answers import Json
from vitascope.cli.client import Client
from vitascope.cli.follow import ENDED, follow_job, raise_unless_succeeded
from vitascope.cli.generate import check_writable
from vitascope.cli.show import describe_pace, describe_stages, err, job_progress, out, print_json, print_table
from vitascope.cli.target import find_client

SHOWN_FIRST = ("id", "status", "reason", "model", "prompt")
HIDDEN = frozenset({"object"})


def list_jobs(status: str | None, limit: int, after: str | None, *, as_json: bool) -> None:
    """A page of jobs, newest first."""
    page = find_client().list(status=status, limit=limit, after=after, order="desc")
    if as_json:
        print_json(page)
        return
    rows = [
        (job["id"], job["status"], f"{job.get('step') or 0}/{job['steps']}", f"{job['width']}x{job['height']}",
         job["num_frames"], job["prompt"])
        for job in page["data"]
    ]  # fmt: skip
    print_table(("job", "status", "step", "size", "frames", "prompt"), rows, shortens=True)
    if page.get("has_more") and rows:
        _hint(f"more: vitascope jobs list --after {rows[-1][0]}")


def show_job(job_id: str, *, as_json: bool) -> None:
    """All that is known of one job."""
    job = find_client().get(job_id)
    if as_json:
        print_json(job)
        return
    names = [*SHOWN_FIRST, *(name for name in job if name not in {*SHOWN_FIRST, *HIDDEN})]
    print_table(("field", "value"), list(flatten({name: job.get(name) for name in names})))


def watch_job(job_id: str, *, as_json: bool) -> None:
    """Follow a job; every newer state is a line of JSON if wished."""
    client = find_client()
    _follow(client, client.get(job_id), as_json=as_json)


def _follow(client: Client, job: Json, *, as_json: bool) -> None:
    if as_json:
        job = follow_job(client, job, print_json)
    else:
        with job_progress() as progress:
            job = follow_job(client, job, progress.job)
        _print_state(job, describe_stages(job))
    raise_unless_succeeded(job)


def cancel_job(job_id: str, *, as_json: bool) -> None:
    """Cancel a job."""
    job = find_client().cancel(job_id)
    if as_json:
        print_json(job)
    else:
        _print_state(job, describe_pace(job))


def retry_job(job_id: str, *, watches: bool, as_json: bool) -> None:
    """Try a failed job again, and follow the new one if wished."""
    client = find_client()
    job = client.retry(job_id)
    if watches:
        if not as_json:
            _hint(f"{job['id']} {job.get('reason') or ''}")
        _follow(client, job, as_json=as_json)
        return
    if as_json:
        print_json(job)
        return
    _print_state(job, job.get("reason") or "")
    again = "retry" if job["status"] == "failed" else "show" if job["status"] in ENDED else "watch"
    _hint(f"go on with it: vitascope jobs {again} {job['id']}")


def preempt_job(job_id: str, *, as_json: bool) -> None:
    """Have a running job give up its GPU group."""
    job = find_client().preempt(job_id)
    if as_json:
        print_json(job)
        return
    _print_state(job, "gives up its GPU group at the next step")


def fetch_job(job_id: str, output: Path, *, as_json: bool) -> None:
    """Write the finished video to a file."""
    check_writable(output)
    size_bytes = find_client().download(job_id, output)
    if as_json:
        print_json({"id": job_id, "file": str(output.resolve()), "bytes": size_bytes})
    else:
        out.print(f"{output.resolve()} ({size_bytes:,} bytes)", highlight=False, markup=False, soft_wrap=True)


def _print_state(job: Json, more: str) -> None:
    out.print(f"{job['id']} {job['status']} {more}".rstrip(), highlight=False, markup=False, soft_wrap=True)


def _hint(text: str) -> None:
    err.print(text.rstrip(), style="dim", highlight=False, markup=False, soft_wrap=True)


def flatten(fields: Json, prefix: str = "") -> Iterator[tuple[str, Any]]:  # whatever JSON holds
    """Each field that has a value as (name, value); a field of an inner object is `outer.inner`."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{name}.")
        elif value not in (None, []):
            yield f"{prefix}{name}", value
