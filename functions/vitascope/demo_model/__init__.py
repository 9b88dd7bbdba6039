"""The demo model: a tiny text-to-video model in the real Wan classes, shipped as package data.

``DEMO_MODEL_DIR`` is a standard diffusers repository that loads offline. ``MODEL_CARD.md`` beside it says what the
weights can and cannot do, ``metrics.json`` holds the measured figures. How they were trained is in
``tools/demo_model`` of the source repository. Only data lives here: whoever loads the model does so in ``engine``.
"""

from importlib.resources import files
from pathlib import Path

__all__ = ["DEMO_MODEL_DIR"]

# ``as_posix`` of a Traversable is not promised, ``Path(str(...))`` holds for every install that unpacks its files;
# a zipped install is refused by diffusers anyway, as it memory-maps the weights.
DEMO_MODEL_DIR: Path = Path(str(files(__name__) / "model"))
