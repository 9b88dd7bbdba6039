"""Batches of drawn clips as tensors."""

import random

import numpy as np
import torch

from judge import Scene, draw_scene, render_clip

Shape = tuple[int, int, int]  # frames, height, width in pixels


def draw_clips(rng: random.Random, count: int, shape: Shape) -> tuple[torch.Tensor, list[Scene]]:
    """Draw scenes and their clips: float32 (count, 3, frames, height, width) in -1..1."""
    frames, height, width = shape
    scenes = [draw_scene(rng) for _ in range(count)]
    clips = [render_clip(s, rng, num_frames=frames, height_px=height, width_px=width) for s in scenes]
    return torch.from_numpy(np.stack(clips)).permute(0, 4, 1, 2, 3).float() / 127.5 - 1, scenes


def crop_at_objects(clips: torch.Tensor, rng: random.Random, *, frames: int, side_px: int) -> torch.Tensor:
    """A window of frames and a square of every clip; the square holds some pixel of the object."""
    crops = []
    for whole in clips:
        start = rng.randrange(whole.shape[1] - frames + 1)
        clip = whole[:, start : start + frames]
        row_colour = clip.median(-1, keepdim=True).values.median(1, keepdim=True).values
        points = ((clip - row_colour).abs().sum(0).amax(0) > 0.3).nonzero()
        height, width = clip.shape[-2:]
        point = points[rng.randrange(len(points))].tolist() if len(points) else [height // 2, width // 2]
        top = min(max(point[0] - rng.randrange(side_px), 0), height - side_px)
        left = min(max(point[1] - rng.randrange(side_px), 0), width - side_px)
        crops.append(clip[..., top : top + side_px, left : left + side_px])
    return torch.stack(crops)
