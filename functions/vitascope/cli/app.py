"""The command line: one function a command; what a command does lies in the modules beside this one."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from vitascope import __version__
from vitascope.cli import jobs, offers, service
from vitascope.cli import recover as recovery
from vitascope.cli.exits import CommandError, Exit
from vitascope.cli.generate import Wish, generate_video
from vitascope.cli.show import print_error, print_json
from vitascope.cli.tenants import tenants_app

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
jobs_app = typer.Typer(help="Look at jobs, cancel them, try them again, fetch their videos.", no_args_is_help=True)
app.add_typer(jobs_app, name="jobs")
app.add_typer(tenants_app, name="tenants")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
JobArgument = Annotated[str, typer.Argument(metavar="ID", help="The job's id, vj_…")]


def print_version(*, is_asked: bool) -> None:
    """Print the version and end, if it is asked for."""
    if is_asked:
        print(__version__)  # noqa: T201 (standard output is the interface)
        raise typer.Exit


@app.callback()
def read_options(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=lambda asked: print_version(is_asked=asked)
        ),
    ] = False,
) -> None:
    """Text in, finished video out: a durable video pipeline on this machine or a cluster."""


@app.command()
def generate(  # noqa: PLR0913 (an argument is an option of the command line)
    prompt: Annotated[str, typer.Argument(help="What the video shows.")],
    *,
    model: Annotated[str | None, typer.Option(help="A model of `vitascope models`.")] = None,
    size: Annotated[str | None, typer.Option(help="WIDTHxHEIGHT, for example 64x64.")] = None,
    frames: Annotated[int | None, typer.Option(help="Number of frames.")] = None,
    fps: Annotated[str | None, typer.Option(help="Frames a second: 8, 23.976 or 24000/1001.")] = None,
    steps: Annotated[int | None, typer.Option(help="Denoising steps.")] = None,
    guidance: Annotated[float | None, typer.Option(help="How closely to keep to the prompt.")] = None,
    negative: Annotated[str | None, typer.Option(help="What the video must not show.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same video.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")] = Path("out.mp4"),
    keep: Annotated[bool, typer.Option("--keep", help="When interrupted, let the job go on.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a video and wait for it; Ctrl-C cancels it.

    Talks to $VITASCOPE_URL (with $VITASCOPE_API_KEY), else to the local `vitascope up`, else starts a pipeline of its
    own for this one video, which `--keep` does not.
    """
    wish = Wish(
        prompt=prompt, model=model, size=size, frames=frames, fps=fps, steps=steps, guidance=guidance,
        negative_prompt=negative, seed=seed,
    )  # fmt: skip
    generate_video(wish, output, keeps=keep, as_json=as_json)


@app.command()
def up(
    *,
    data: Annotated[Path | None, typer.Option(help="Where everything is kept; default $VITASCOPE_DATA.")] = None,
    port: Annotated[int, typer.Option(help="Port of the HTTP API; 0 takes a free one.", min=0, max=65535)] = 8765,
    groups: Annotated[int, typer.Option(help="Number of denoise groups.", min=1, max=64)] = 1,
    as_json: AsJson = False,
) -> None:
    """Run the whole pipeline here until Ctrl-C; a later run on the same folder goes on with the same jobs."""
    service.run_service(data, port, groups, as_json=as_json)


@app.command()
def models(*, as_json: AsJson = False) -> None:
    """List the models: what they can do, their defaults, limits and shapes."""
    offers.show_models(as_json=as_json)


@app.command()
def status(*, as_json: AsJson = False) -> None:
    """Say whether a job would run, and what waits and runs."""
    service.show_status(as_json=as_json)


@app.command()
def doctor(*, as_json: AsJson = False) -> None:
    """Say what is missing on this machine, and how to mend it."""
    service.show_checks(as_json=as_json)


@app.command()
def recover(
    *,
    takes_all: Annotated[
        bool, typer.Option("--all", help="Also jobs that are no older than the ledger: after an old backup of it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Rebuild lost jobs from the copies in the object store; those that are there stay as they are.

    The scheduler does it by itself when the ledger was lost. Talks to the servers of $VITASCOPE_NATS__URL and
    $VITASCOPE_S3__ENDPOINT, else to those of the local `vitascope up`.
    """
    recovery.recover_jobs(takes_all=takes_all, as_json=as_json)


@app.command()
def version(*, as_json: AsJson = False) -> None:
    """Print the version."""
    if as_json:
        print_json({"version": __version__})
    else:
        print_version(is_asked=True)


@jobs_app.command("list")
def list_jobs(
    *,
    status_filter: Annotated[str | None, typer.Option("--status", help="Only jobs in this state.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many, newest first.", min=1, max=100)] = 20,
    after: Annotated[str | None, typer.Option(help="Go on after this job.")] = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    jobs.list_jobs(status_filter, limit, after, as_json=as_json)


@jobs_app.command("show")
def show_job(job: JobArgument, *, as_json: AsJson = False) -> None:
    """Show all that is known of a job."""
    jobs.show_job(job, as_json=as_json)


@jobs_app.command("watch")
def watch_job(job: JobArgument, *, as_json: AsJson = False) -> None:
    """Follow a job to its end."""
    jobs.watch_job(job, as_json=as_json)


@jobs_app.command("cancel")
def cancel_job(job: JobArgument, *, as_json: AsJson = False) -> None:
    """Cancel a job; twice is the same as once."""
    jobs.cancel_job(job, as_json=as_json)


@jobs_app.command("retry")
def retry_job(
    job: JobArgument,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Follow the new job to its end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Try a failed job again, as a new job that goes on where it stopped; twice is the same as once."""
    jobs.retry_job(job, watches=watch, as_json=as_json)


@jobs_app.command("preempt")
def preempt_job(job: JobArgument, *, as_json: AsJson = False) -> None:
    """Put a running job back into the queue at its next step, its work kept; twice is the same as once."""
    jobs.preempt_job(job, as_json=as_json)


@jobs_app.command("fetch")
def fetch_job(
    job: JobArgument,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")],
    as_json: AsJson = False,
) -> None:
    """Write a finished job's video to a file."""
    jobs.fetch_job(job, output, as_json=as_json)


def main() -> None:
    """Run the command line; every error ends with its sentence and its exit status."""
    try:
        app()
    except CommandError as error:
        if "--json" in sys.argv:
            print_json(error.to_json())
        print_error(error)
        sys.exit(error.code)
    except SystemExit as end:  # typer has told people on standard error what is wrong with the command line
        if end.code == Exit.USAGE and "--json" in sys.argv:
            print_json(CommandError(Exit.USAGE, "the command line is wrong", why="standard error has it").to_json())
        raise


if __name__ == "__main__":
    main()
