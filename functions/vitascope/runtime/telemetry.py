"""Logs and metrics of every process: structured lines on stderr, Prometheus metrics named `vitascope_*`."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import structlog
from prometheus_client import Counter, Gauge, Histogram, start_http_server
from structlog.typing import Processor

from vitascope import __version__
from vitascope.runtime.settings import LogSettings, MetricsSettings

OURS = ("vitascope", "vitascope_operator")
"""Loggers that follow the level of the settings; libraries log warnings and worse."""
STAGE_SECONDS_BUCKETS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 3600)
"""From a tiny clip on a laptop to the largest shape on one slow group."""

BUILD = Gauge("vitascope_build_info", "The version that runs; the value is always 1.", ["version"])
STAGE_DURATION = Histogram(
    "vitascope_stage_duration_seconds",
    "Time of one run of a stage, by how it ended.",
    ["stage", "outcome"],
    buckets=STAGE_SECONDS_BUCKETS,
)
STAGE_BUSY = Gauge("vitascope_stage_busy", "Runs of a stage at this moment.", ["stage"])
STAGE_REDELIVERIES = Counter("vitascope_stage_redeliveries_total", "Events that were not new.", ["stage"])
DEAD_LETTERS = Counter("vitascope_dead_letters_total", "Events that failed past their last try.", ["stage"])

BUILD.labels(version=__version__).set(1)


def configure_logs(settings: LogSettings, role: str) -> None:
    """Sends every log line of the process to stderr, one line each, `role` among its fields.

    Lines of libraries that use `logging`, and warnings, take the same way. A second call replaces the first.
    """
    shared: Sequence[Processor] = (
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _name_role(role),
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    output = logging.StreamHandler(sys.stderr)
    output.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(settings)],
        ),
    )
    level = settings.level.upper()
    logging.basicConfig(handlers=[output], level=max(logging.getLevelName(level), logging.WARNING), force=True)
    for name in OURS:
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(capture=True)


@asynccontextmanager
async def serving_metrics(settings: MetricsSettings) -> AsyncIterator[int | None]:
    """Serves `/metrics` for a process without an HTTP face of its own; gives the port, or None if none is wished.

    Raises:
        OSError: the port is taken.
    """
    if settings.port is None:
        yield None
        return
    server, thread = start_http_server(settings.port, addr=settings.host)
    try:
        yield server.server_port
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()
        thread.join()


def _name_role(role: str) -> Processor:
    def name_role(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {"role": role, **event}

    return name_role


def _rendering(settings: LogSettings) -> Sequence[Processor]:
    if settings.format == "text":
        # The plain traceback: rich's shows local variables, and with them prompts and whole tensors.
        plain = structlog.dev.plain_traceback
        return (structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain),)
    return (structlog.processors.format_exc_info, structlog.processors.JSONRenderer())
