"""The metrics endpoint of processes without an HTTP face of their own."""

import httpx
import psutil
import pytest

from vitascope.runtime.settings import MetricsSettings
from vitascope.runtime.telemetry import serving_metrics


async def test_metrics_are_served_on_the_given_address_until_the_end() -> None:
    """A scrape answers while the context is open, on that address alone, and nothing listens after it."""
    async with serving_metrics(MetricsSettings(port=0)) as port, httpx.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{port}/metrics")
        assert "vitascope_build_info" in answer.text
        listening = [c.laddr for c in psutil.Process().connections(kind="tcp") if c.status == "LISTEN"]
        assert [("127.0.0.1", port)] == [tuple(address) for address in listening if address.port == port]
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://127.0.0.1:{port}/metrics")
