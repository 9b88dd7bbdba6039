"""`docs/api.md` says what the door does."""

import json
import re
from pathlib import Path

import httpx
import pytest

from doors import JOBS
from vitascope.admission import FIELDS
from vitascope.ingress.errors import STATUS

PAGE = (Path(__file__).parents[3] / "docs" / "api.md").read_text(encoding="utf-8")


def test_every_code_stands_beside_its_status() -> None:
    """And no other does."""
    rows = re.findall(r"^\| (\d{3}) \| (.*) \|$", PAGE, re.MULTILINE)
    listed = {(int(status), code) for status, codes in rows for code in re.findall(r"`([a-z_]+)`", codes)}
    assert {(status, code.value) for code, status in STATUS.items()} | {(416, "invalid_request")} == listed


def test_every_field_is_explained() -> None:
    """Every spelling of it."""
    rows = PAGE.partition("## Fields of a request")[2].partition("## What")[0]
    names = {
        name for row in rows.splitlines() if row.startswith("| `") for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    assert names == FIELDS


async def test_every_route_is_listed(client: httpx.AsyncClient) -> None:
    """Those of the OpenAPI document."""
    paths = (await client.get("/openapi.json")).json()["paths"]
    for path in paths:
        assert f"{path.replace('{job}', '{id}')}`" in PAGE, path


@pytest.mark.parametrize("body", re.findall(r"-d '(\{.*\})'", PAGE))
async def test_the_examples_are_taken(client: httpx.AsyncClient, body: str) -> None:
    """As they stand there."""
    assert 202 == (await client.post(JOBS, json=json.loads(body))).status_code
