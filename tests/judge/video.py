"""Reading a finished video for the judge."""

from pathlib import Path

import av
import numpy as np
import numpy.typing as npt


def read_video(path: Path) -> npt.NDArray[np.uint8]:
    """Every frame of the first video stream as uint8 (frames, height, width, 3); at least one."""
    with av.open(str(path)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    return np.stack(frames).astype(np.uint8)
