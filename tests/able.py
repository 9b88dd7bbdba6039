"""Models with abilities, and stored media, for tests of what a request may ask."""

from fractions import Fraction
from typing import Any

from vitascope.catalog.demo import make_demo_entry
from vitascope.contracts.jobs import ObjectRef, Reference, ReferenceRole
from vitascope.contracts.models import Capabilities, Defaults, LatentEdit, ModelEntry, Task
from vitascope.contracts.shapes import Bucket

EDIT_BUCKET = Bucket(name="edit", width=96, height=64, num_frames=22)
"""One cycle and the end: 7 latents, 4 x 6 cells, 2 x 3 tokens."""


def make_able(*tasks: Task, has_sound: bool = False, **capabilities: Any) -> ModelEntry:
    """The demo model with abilities."""
    changes = {"tasks": (Task.T2V, *tasks), "has_sound": has_sound, "capabilities": Capabilities(**capabilities)}
    return make_demo_entry().model_copy(update=changes)


def make_reference(role: ReferenceRole, **known: Any) -> Reference:
    """Stored media."""
    media = ObjectRef(key=f"inputs/default/vj_1/{role}", bytes=1, sha256="0" * 64)
    return Reference(role=role, object=media, media_type="image/png", **known)


def make_editor(*, has_sound: bool = True) -> ModelEntry:
    """A model that keeps masked parts of a source, with one shape, at 24 frames a second."""
    changes = {
        "buckets": (EDIT_BUCKET,),
        "defaults": Defaults(width=96, height=64, num_frames=22, fps=Fraction(24)),
    }
    return make_able(Task.EDIT, has_sound=has_sound, latent_edit=LatentEdit()).model_copy(update=changes)
