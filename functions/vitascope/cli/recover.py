"""`vitascope recover`: rebuild the ledger of jobs from the copies of their records."""

import asyncio
import os

from vitascope.cli.exits import CommandError, Exit
from vitascope.cli.service import check_settings
from vitascope.cli.show import out, print_json, print_table
from vitascope.cli.target import default_data_folder
from vitascope.contracts.failures import VitascopeError
from vitascope.local.audit import AuditFailed, find_service
from vitascope.runtime.rebuild import Rebuilder, RebuildReport
from vitascope.runtime.settings import LogSettings, Settings
from vitascope.runtime.telemetry import configure_logs


def recover_jobs(*, takes_all: bool, as_json: bool) -> None:
    """Create every job that is missing, and say what was done.

    Raises:
        CommandError: `UNREACHABLE`, there is no service or one of its servers does not answer; `FAILED`, copies cannot
            be read, all others were taken; `USAGE`, a setting is wrong.
    """
    os.environ.update(_find_service())
    check_settings()
    configure_logs(LogSettings(level="error", format="text"), "recover")  # its report is what people read
    try:
        report = asyncio.run(recover(Settings(), takes_all=takes_all))
    except VitascopeError as error:
        fix = "Look at `vitascope status` and at the servers; what was rebuilt stays, so run it again."
        raise CommandError(Exit.UNREACHABLE, "the jobs cannot be rebuilt now", why=str(error), fix=fix) from error
    tell_report(report, as_json=as_json)
    if report.broken:
        fix = "Look at them in the object store; remove what nobody can read."
        raise CommandError(Exit.FAILED, f"copies that cannot be read: {report.broken}", fix=fix)


async def recover(settings: Settings, *, takes_all: bool) -> RebuildReport:
    """Rebuild the ledger that the settings lead to.

    Raises:
        VitascopeError: a server cannot be reached, or the scheduler has not made the streams yet.
    """
    from vitascope.wiring import open_ports  # noqa: PLC0415 (its libraries take a second to import)

    async with open_ports(settings, "recover") as ports:
        return await Rebuilder(ports.ledger, ports.store, ports.clock).run(with_younger=takes_all)


def tell_report(report: RebuildReport, *, as_json: bool) -> None:
    """What was done; the broken copies are for `CommandError` and, by key, for both kinds of reader."""
    counts = {
        "copies": report.copies, "present": report.present, "rebuilt_live": report.live,
        "rebuilt_ended": report.ended, "left": report.left, "broken": report.broken,
    }  # fmt: skip
    if as_json:
        print_json({**counts, "broken_keys": report.broken_keys})
        return
    print_table(("copies", "count"), [(name.replace("_", " "), str(count)) for name, count in counts.items()])
    for key in report.broken_keys:
        out.print(f"cannot be read: {key}", highlight=False, markup=False, soft_wrap=True)


def _find_service() -> dict[str, str]:
    try:
        env = find_service(default_data_folder())
    except AuditFailed as error:
        raise CommandError(Exit.UNREACHABLE, "the local run cannot be reached", why=str(error)) from error
    if env is None:
        raise CommandError(
            Exit.UNREACHABLE,
            "no service whose jobs could be rebuilt",
            why=f"VITASCOPE_NATS__URL is not set, and nothing runs in {default_data_folder()}",
            fix="Start one with `vitascope up`, or set VITASCOPE_NATS__URL and VITASCOPE_S3__ENDPOINT.",
        )
    return env
