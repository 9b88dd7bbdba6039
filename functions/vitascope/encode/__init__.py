"""Pixel chunks and sound to one playable, verified MP4 with a thumbnail.

The only importer of PyAV. Knows pixels, sound and files on the local disk; the stage's handler brings them and takes
the result away.
"""
