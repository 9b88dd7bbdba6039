"""Logs are lines that a program can read, whoever writes them; metrics have one prefix."""

import json
import logging
import warnings
from collections.abc import Iterator

import pytest
import structlog
from prometheus_client import REGISTRY

from vitascope import __version__
from vitascope.runtime import telemetry
from vitascope.runtime.settings import LogSettings, MetricsSettings


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in telemetry.OURS}
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:], root.level = handlers, level
    for name, old in levels.items():
        logging.getLogger(name).setLevel(old)
    structlog.reset_defaults()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def test_json_line_has_message_fields_and_role(capsys: pytest.CaptureFixture[str]) -> None:
    """One line of JSON on stderr: constant message, fields, role, level, time in UTC."""
    telemetry.configure_logs(LogSettings(), "decode")
    structlog.get_logger("vitascope.test").info("run ended", job="vj_1", attempt=2)
    (line,) = lines(capsys)
    stamp = line.pop("timestamp")
    assert line == {
        "event": "run ended",
        "job": "vj_1",
        "attempt": 2,
        "role": "decode",
        "level": "info",
        "logger": "vitascope.test",
    }
    assert isinstance(stamp, str)
    assert stamp.endswith("Z")


def test_library_lines_take_the_same_way(capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings of libraries, by `logging` and by `warnings`, come as lines of ours; their chatter does not."""
    telemetry.configure_logs(LogSettings(level="debug"), "decode")
    logging.getLogger("nats.client").info("chatter")
    logging.getLogger("nats.client").warning("lost %s", "connection")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        telemetry.configure_logs(LogSettings(level="debug"), "decode")
        warnings.warn("old call", DeprecationWarning, stacklevel=1)
    first, second = lines(capsys)
    assert (first["event"], first["logger"], first["role"]) == ("lost connection", "nats.client", "decode")
    assert "old call" in str(second["event"])


def test_level_holds_for_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """What is below the level is not written."""
    telemetry.configure_logs(LogSettings(level="warning"), "decode")
    structlog.get_logger("vitascope.test").info("quiet")
    structlog.get_logger("vitascope.test").warning("loud")
    assert ["loud"] == [line["event"] for line in lines(capsys)]


def test_trace_is_one_field(capsys: pytest.CaptureFixture[str]) -> None:
    """A traceback does not break the line."""
    telemetry.configure_logs(LogSettings(), "decode")
    structlog.get_logger("vitascope.test").error("run failed", exc_info=ValueError("why"))
    (line,) = lines(capsys)
    assert "ValueError: why" in str(line["exception"])


def test_text_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """The other format has no JSON and no colour codes where nobody looks at a terminal, and no local variables."""
    telemetry.configure_logs(LogSettings(format="text"), "decode")
    structlog.get_logger("vitascope.test").info("run ended", job="vj_1")
    prompt = "red circle".replace(" ", "-")
    try:
        _ = ()[len(prompt)]
    except IndexError:
        structlog.get_logger("vitascope.test").exception("run failed")
    written = capsys.readouterr().err
    assert "run ended" in written
    assert "job=vj_1" in written
    assert "IndexError: " in written
    assert "red-circle" not in written, "a traceback must not show local variables"
    assert "\x1b" not in written
    assert "{" not in written


def test_version_is_a_metric() -> None:
    """A scrape tells which version runs."""
    assert REGISTRY.get_sample_value("vitascope_build_info", {"version": __version__}) == 1


async def test_no_port_means_no_endpoint() -> None:
    """Processes with an HTTP face of their own, and those that nobody scrapes, open nothing."""
    async with telemetry.serving_metrics(MetricsSettings()) as port:
        assert port is None
