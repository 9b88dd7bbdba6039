"""What stands for media that has not been read: the best that it may turn out to be."""

import pytest

from vitascope.catalog.demo import make_demo_entry
from vitascope.contracts.jobs import ReferenceRole
from vitascope.contracts.models import Capabilities, ModelEntry
from vitascope.ingress.references import ReferenceSource
from vitascope.ingress.wishes import stand_in

IMG, VID, SND = ReferenceRole.IMAGE, ReferenceRole.VIDEO, ReferenceRole.AUDIO


def make_entry(images: int, videos: int, *, mixes: bool = False) -> ModelEntry:
    can = Capabilities(max_images=images, max_videos=videos, mixes_references=mixes)
    return make_demo_entry().model_copy(update={"capabilities": can})


@pytest.mark.parametrize(
    ("entry", "roles", "expected"),
    [
        pytest.param(make_entry(1, 0), [None], [IMG], id="images only"),
        pytest.param(make_entry(0, 1), [None], [VID], id="videos only"),
        pytest.param(make_entry(1, 1), [None], [IMG], id="either"),
        pytest.param(make_entry(1, 2), [None, None], [VID, VID], id="more than images"),
        pytest.param(make_entry(2, 2), [VID, None], [VID, VID], id="beside a video"),
        pytest.param(make_entry(2, 2), [IMG, None], [IMG, IMG], id="beside an image"),
        pytest.param(make_entry(1, 2, mixes=True), [None, None, None], [IMG, VID, VID], id="mixed"),
        pytest.param(make_entry(1, 2, mixes=True), [IMG, None, SND], [IMG, VID, SND], id="mixed beside others"),
        pytest.param(make_entry(0, 0), [None], [IMG], id="nothing that the model takes"),
    ],
)
def test_a_source_is_what_the_model_takes(
    entry: ModelEntry, roles: list[ReferenceRole | None], expected: list[ReferenceRole]
) -> None:
    """So that nothing is refused that might pass."""
    sources = [ReferenceSource("p", role, url="http://x.example/") for role in roles]
    assert expected == [reference.role for reference in stand_in(sources, entry)]
