"""vitascope: text, images, video and sound in; finished video out, on a fleet of GPU groups."""

from importlib.metadata import version

__version__ = version("vitascope")
