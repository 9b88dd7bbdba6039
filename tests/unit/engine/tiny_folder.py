"""A tiny Wan 2.2 model, saved as its checkpoint would be: standard layout, sharded safetensors."""

from pathlib import Path
from typing import Any

import diffusers
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, UMT5Config, UMT5EncoderModel

from unit.engine.tiny_families import SAMPLERS, wan_dit, wan_vae
from vitascope.engine import GenerationInputs

BOUNDARY = 0.9
REQUEST = GenerationInputs(
    prompt="a red circle",
    negative_prompt="blue",
    seed=3,
    width=16,
    height=16,
    num_frames=5,
    num_inference_steps=4,
    guidance_scale=4.0,
    guidance_scale_2=3.0,
)


def tokenizer() -> PreTrainedTokenizerFast:
    words = ["<pad>", "</s>", "<unk>", "a", "red", "blue", "circle"]
    inner = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def text_encoder() -> UMT5EncoderModel:
    torch.manual_seed(1)
    config = UMT5Config(d_model=32, d_kv=8, d_ff=16, num_layers=1, num_heads=2, vocab_size=8)
    return UMT5EncoderModel(config).eval()


def pipeline() -> Any:
    """The library's own pipeline with the same weights, to compare with."""
    made = diffusers.WanPipeline(
        tokenizer=tokenizer(),
        text_encoder=text_encoder(),
        transformer=wan_dit(),
        transformer_2=wan_dit(ffn_dim=48),
        vae=wan_vae(),
        scheduler=SAMPLERS["unipc"](),
        boundary_ratio=BOUNDARY,
    )
    made.set_progress_bar_config(disable=True)
    return made


def save(folder: Path) -> Path:
    pipeline().save_pretrained(folder, max_shard_size="30KB")
    return folder


def save_i2v(folder: Path) -> Path:
    """The same family, made for a first frame."""
    diffusers.WanImageToVideoPipeline(
        tokenizer=tokenizer(),
        text_encoder=text_encoder(),
        transformer=wan_dit(in_channels=36),
        transformer_2=wan_dit(in_channels=36, ffn_dim=48),
        vae=wan_vae(),
        scheduler=SAMPLERS["unipc"](),
        boundary_ratio=BOUNDARY,
    ).save_pretrained(folder)
    return folder


def theirs(made: Any, request: GenerationInputs, output_type: str) -> torch.Tensor:
    """What the library's pipeline makes of a request."""
    frames: torch.Tensor = made(
        prompt=request.prompt,
        negative_prompt=request.negative_prompt,
        height=request.height,
        width=request.width,
        num_frames=request.num_frames,
        num_inference_steps=request.num_inference_steps,
        guidance_scale=request.guidance_scale,
        guidance_scale_2=request.guidance_scale_2,
        generator=torch.Generator().manual_seed(request.seed),
        output_type=output_type,
    ).frames
    return frames
