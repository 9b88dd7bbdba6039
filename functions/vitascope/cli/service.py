"""`vitascope up`, `status` and `doctor`."""

import asyncio
from pathlib import Path

from pydantic import ValidationError
from pydantic_settings import SettingsError
from rich.text import Text

from vitascope.cli.exits import CommandError, Exit
from vitascope.cli.show import err, out, print_json, print_table
from vitascope.cli.target import default_data_folder, find_client
from vitascope.local.checks import CheckState, run_checks
from vitascope.local.errors import LocalRunError
from vitascope.local.keeper import ChildReport, ChildState
from vitascope.local.up import UpAddresses, UpOptions, run_up
from vitascope.runtime.settings import LogSettings, Settings, name_settings
from vitascope.runtime.telemetry import configure_logs

STYLES = {CheckState.OK: "green", CheckState.WARNING: "yellow", CheckState.MISSING: "red"}


def run_service(data: Path | None, port: int, groups: int, *, as_json: bool) -> None:
    """Run everything until SIGINT or SIGTERM."""
    check_settings()  # every process reads them at its start: a bad one is better said once, and before
    configure_logs(LogSettings(level="error", format="text"), "up")  # its reports are what people read
    options = UpOptions(data or default_data_folder(), port, groups)
    on_ready, on_report = (tell_ready_json, tell_report_json) if as_json else (tell_ready, tell_report)
    try:
        asyncio.run(run_up(options, on_ready=on_ready, on_report=on_report))
    except LocalRunError as error:
        raise CommandError(Exit.NOT_READY, error.happened, why=error.why.strip(), fix=f"{error.remedy}.") from error


def check_settings() -> None:
    """Find a bad setting in the environment.

    Raises:
        CommandError: `USAGE`, with the names of the variables.
    """
    fix = "Correct or unset it; docs/cli.md has the settings."
    try:
        Settings()
    except ValidationError as error:
        raise CommandError(Exit.USAGE, "a setting is wrong", why=name_settings(error), fix=fix) from error
    except SettingsError as error:  # text where a group of settings belongs
        why = f"VITASCOPE_…: {error}"
        raise CommandError(Exit.USAGE, "a setting is wrong", why=why, fix=fix) from error


def tell_ready(addresses: UpAddresses) -> None:
    """Say where everything is."""
    out.print(f"\n[bold]ready[/]  HTTP API  {addresses.url}", highlight=False)
    out.print(f"       NATS      {addresses.nats_url}", highlight=False)
    out.print(f"       S3        {addresses.s3_endpoint}", highlight=False)
    out.print(f"       logs      {addresses.logs}", highlight=False, soft_wrap=True)
    out.print('\nTry: vitascope generate "a red circle moving right on a white background"   (Ctrl-C stops)\n')


def tell_report(report: ChildReport) -> None:
    """One line for each change in a child's life."""
    is_bad = report.state in {ChildState.ENDED, ChildState.FAILED}
    reason = f": {report.reason}" if report.reason else ""
    style = "yellow" if is_bad else "dim"
    err.print(
        f"{report.child} {report.state.value}{reason}", style=style, highlight=False, markup=False, soft_wrap=True
    )


def tell_ready_json(addresses: UpAddresses) -> None:
    """As `tell_ready`, for programs."""
    print_json({
        "event": "ready", "url": addresses.url, "nats_url": addresses.nats_url, "s3_endpoint": addresses.s3_endpoint,
        "logs": str(addresses.logs),
    })  # fmt: skip


def tell_report_json(report: ChildReport) -> None:
    """As `tell_report`, for programs."""
    print_json({"event": "child", "child": report.child, "state": report.state.value, "reason": report.reason})


def show_status(*, as_json: bool) -> None:
    """Whether a job would run; the exit status says it too."""
    client = find_client()
    is_ready, parts = client.readiness()
    missing = [name for name, is_there in parts["checks"].items() if not is_there]
    queue = client.queue() if is_ready else None
    if as_json:
        print_json({"url": client.url, "ready": is_ready, "parts": parts, "queue": queue})
    else:
        out.print(f"{client.url} {'ready' if is_ready else 'not ready'}", highlight=False, markup=False, soft_wrap=True)
        print_table(("part", "state"), [(name, "missing" if name in missing else "ok") for name in parts["checks"]])
        if queue is not None:
            print_table(("jobs", "count"), list(queue["jobs"].items()))
    if not is_ready:
        raise CommandError(Exit.NOT_READY, "a job would not run now", why=f"missing: {', '.join(missing)}")


def show_checks(*, as_json: bool) -> None:
    """Every check of this machine; the exit status says whether something is missing."""
    checks = run_checks(default_data_folder())
    if as_json:
        print_json([{"name": c.name, "state": c.state.value, "found": c.found, "fix": c.fix} for c in checks])
    else:
        for check in checks:
            fix = f"\n         fix: {check.fix}" if check.fix else ""
            mark = Text(f"{check.state.value:<8} ", STYLES[check.state])
            out.print(mark + Text(f"{check.name}: {check.found}{fix}"), soft_wrap=True)
    missing = [check.name for check in checks if check.state is CheckState.MISSING]
    if missing:
        raise CommandError(Exit.NOT_READY, f"missing: {', '.join(missing)}")
