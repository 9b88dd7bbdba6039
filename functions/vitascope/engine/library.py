"""The one doorway to diffusers: every name of it that the engine uses, with its private parts marked.

The engine leans on parts that diffusers does not promise to keep: `ModularPipeline._blocks` and `_execution_device`,
replacing `loop_step` and `vae.decode` on an instance, `decoder(feat_cache=)`, `_decode`, `_decode_clip` and `_blend` of
the video VAEs. The version is therefore pinned exactly, and tests/unit/engine is what an upgrade has to pass.
"""

import os

# The bars inside the chunk loops of two families have no other switch. tqdm reads it when it is first imported, which
# torch may have done already.
os.environ.setdefault("TQDM_DISABLE", "1")

from typing import Any, TypeAlias

import diffusers
import torch
import transformers
from diffusers import ModelMixin
from diffusers.guiders.guider_utils import BaseGuidance
from diffusers.models.autoencoders.autoencoder_kl_wan import unpatchify
from diffusers.models.autoencoders.vae import DecoderOutput
from diffusers.modular_pipelines import (
    ConditionalPipelineBlocks,
    LoopSequentialPipelineBlocks,
    PipelineState,
    SequentialPipelineBlocks,
)
from diffusers.schedulers.scheduling_utils import SchedulerMixin
from diffusers.utils import logging as diffusers_logging

# Both libraries ship no types that mypy can follow, so their objects are `Any`; the names say what is meant.
Blocks: TypeAlias = Any  # a ModularPipelineBlocks: one block or a tree of them
Component: TypeAlias = Any  # a model, scheduler, guider, tokenizer or processor
Pipe: TypeAlias = Any  # a ModularPipeline
State: TypeAlias = Any  # a PipelineState: named values and their tags

VERSIONS = {
    "diffusers": diffusers.__version__,
    "torch": torch.__version__,
    "transformers": transformers.__version__,
}

# Their warnings ("guiders are experimental", once per job) and block tracebacks would drown our own log.
diffusers_logging.set_verbosity(diffusers_logging.CRITICAL)
diffusers_logging.disable_progress_bar()
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

__all__ = [
    "VERSIONS",
    "BaseGuidance",
    "Blocks",
    "Component",
    "ConditionalPipelineBlocks",
    "DecoderOutput",
    "LoopSequentialPipelineBlocks",
    "ModelMixin",
    "Pipe",
    "PipelineState",
    "SchedulerMixin",
    "SequentialPipelineBlocks",
    "State",
    "diffusers",
    "unpatchify",
]
