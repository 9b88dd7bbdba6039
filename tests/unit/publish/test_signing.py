"""Signed URLs."""

from datetime import timedelta

from doors import World
from vitascope.contracts.jobs import ObjectRef
from vitascope.publish import UrlSigner


async def test_a_url_names_the_object_and_its_end(world: World) -> None:
    """For the public endpoint, with the life that the settings give."""
    signer = UrlSigner(world.store, world.time, 60)
    url, expires = await signer.sign(ObjectRef(key="outputs/default/a b.mp4", bytes=1, sha256="a" * 64))
    assert url.startswith("http://objects.invalid/outputs/default/a%20b.mp4?expires=")
    assert world.time.now() + timedelta(seconds=60) == expires
