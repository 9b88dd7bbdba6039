"""Reading references from a test's own internet, with what must hold after every refusal."""

from pathlib import Path
from typing import Any

import pytest

from doors import make_reader
from strange_internet import INSIDE, OUTSIDE, Internet
from vitascope.adapters.memory import MemoryObjectStore
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import Reference, ReferenceRole
from vitascope.ingress.references import ReferenceSource

JOB, TENANT = "vj_01JDXW4T7C8RZ3Q9V5N2M6K0AB", "default"
LIMIT = 100_000


async def read(
    internet: Internet,
    url: str,
    folder: Path,
    *,
    role: ReferenceRole | None = None,
    follow_redirects: bool = True,
    **settings: Any,
) -> Reference:
    """What a request with that URL would start from."""
    store = MemoryObjectStore()
    async with internet.outbound(follow_redirects=follow_redirects) as outbound:
        reader = make_reader(store, folder=folder, outbound=outbound, **{"max_bytes": LIMIT, **settings})
        try:
            (made,) = await reader.read([ReferenceSource("image_reference", role, url=url)], tenant=TENANT, job=JOB)
        except VitascopeError:
            assert {} == store.objects
            raise
        finally:
            assert is_empty(folder)
    assert [made.object.key] == list(store.objects)
    return made


def is_empty(folder: Path) -> bool:
    return not list(folder.iterdir())


async def refuse(internet: Internet, url: str, folder: Path, **options: Any) -> FailureCode:
    """The code of the refusal; nothing inside was reached, nothing stored, nothing told that is not the client's."""
    with pytest.raises(VitascopeError) as caught:
        await read(internet, url, folder, **options)
    assert [] == internet.inside
    assert "image_reference" == caught.value.param
    for hidden in (INSIDE, OUTSIDE, str(folder), "secret"):
        assert hidden not in str(caught.value)
    return caught.value.code
