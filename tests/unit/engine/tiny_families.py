"""Tiny random models of twelve families, for tests.

A family is what its own checkpoint would be, made small: the blocks class, the components, and what an encode stage
would hand over (random embeddings in the place of real encoders).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import diffusers
import torch
from diffusers.modular_pipelines import PipelineState, SequentialPipelineBlocks
from diffusers.modular_pipelines.cosmos.before_encoder import Cosmos3TransferSetupStep
from diffusers.pipelines.ltx2.vocoder import LTX2Vocoder

from vitascope.engine.pipes import build_pipe, neighbours_of
from vitascope.engine.run import run_stage
from vitascope.engine.stages import create_blocks

FLOW = {"prediction_type": "flow_prediction", "use_flow_sigmas": True, "flow_shift": 3.0}
SAMPLERS: dict[str, Callable[[], Any]] = {
    "unipc": lambda: diffusers.UniPCMultistepScheduler(**FLOW),
    "euler": lambda: diffusers.FlowMatchEulerDiscreteScheduler(shift=5.0),
    "dpm": lambda: diffusers.DPMSolverMultistepScheduler(**FLOW),
    "ancestral": diffusers.LTXEulerAncestralRFScheduler,  # draws noise at every step
}
SMALL = {"height": 16, "width": 16, "num_frames": 9}
SIDES = ("", "negative_")


@dataclass(frozen=True)
class Tiny:
    """One family: what its checkpoint holds and what its encode stage makes."""

    blocks: str
    components: dict[str, Any]
    inputs: dict[str, Any]
    tagged: tuple[str, ...] = ()
    chunk_count: str | None = None
    audio_rate: tuple[str, str] | None = None


def tiny(cls: Any, **config: Any) -> Any:
    torch.manual_seed(0)
    return cls(**config).eval()


def rand(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, dtype=torch.long)


def wan_text() -> dict[str, torch.Tensor]:
    return {side + "prompt_embeds": rand(1, 16, 32, seed=len(side)) for side in SIDES}


def wan_vae() -> Any:
    return tiny(diffusers.AutoencoderKLWan, base_dim=3, dim_mult=[1, 1, 1, 1], num_res_blocks=1)


def wan_parts(**more: Any) -> dict[str, Any]:
    return {"vae": wan_vae(), "scheduler": SAMPLERS["unipc"]()} | more


def wan_dit(cls: Any = diffusers.WanTransformer3DModel, **more: Any) -> Any:
    small = {
        "num_attention_heads": 4,
        "attention_head_dim": 12,
        "text_dim": 32,
        "freq_dim": 32,
        "ffn_dim": 32,
        "num_layers": 2,
    }
    return tiny(cls, **small | more)


def wan21_t2v() -> Tiny:
    return Tiny("WanBlocks", wan_parts(transformer=wan_dit()), SMALL | wan_text())


def wan21_i2v() -> Tiny:
    image = {"image_condition_latents": rand(1, 20, 3, 2, 2), "image_embeds": rand(1, 9, 8)}
    parts = wan_parts(transformer=wan_dit(in_channels=36, image_dim=8))
    return Tiny("WanImage2VideoAutoBlocks", parts, SMALL | wan_text() | image)


def wan22_t2v() -> Tiny:
    parts = wan_parts(transformer=wan_dit(), transformer_2=wan_dit(ffn_dim=48))
    return Tiny("Wan22Blocks", parts, SMALL | wan_text())


def wan22_i2v() -> Tiny:
    image = {"image_condition_latents": rand(1, 20, 3, 2, 2)}
    parts = wan_parts(transformer=wan_dit(in_channels=36), transformer_2=wan_dit(in_channels=36, ffn_dim=48))
    return Tiny("Wan22Image2VideoBlocks", parts, SMALL | wan_text() | image)


def wan22_vace() -> Tiny:
    vace = {"cls": diffusers.WanVACETransformer3DModel, "vace_layers": [0], "vace_in_channels": 96}
    control = {"control_hidden_states": rand(1, 96, 4, 2, 2), "control_hidden_states_scale": torch.ones(1)}
    parts = wan_parts(transformer=wan_dit(**vace), transformer_2=wan_dit(**vace, ffn_dim=48))
    inputs = SMALL | wan_text() | control | {"num_reference_images": 1}
    return Tiny("Wan22VaceBlocks", parts, inputs, tuple(control))


def hunyuan15() -> Tiny:
    dit = tiny(
        diffusers.HunyuanVideo15Transformer3DModel,
        in_channels=9,
        out_channels=4,
        num_attention_heads=2,
        attention_head_dim=8,
        num_layers=1,
        num_refiner_layers=1,
        mlp_ratio=2.0,
        text_embed_dim=16,
        text_embed_2_dim=32,
        image_embed_dim=12,
        rope_axes_dim=(2, 2, 4),
        target_size=16,
    )
    vae = tiny(
        diffusers.AutoencoderKLHunyuanVideo15,
        latent_channels=4,
        block_out_channels=(16, 16),
        layers_per_block=1,
        spatial_compression_ratio=4,
        temporal_compression_ratio=2,
        downsample_match_channel=False,
        upsample_match_channel=False,
    )
    text: dict[str, Any] = {"batch_size": 1}
    for side in SIDES:
        text |= {
            side + "prompt_embeds": rand(1, 12, 16, seed=len(side)),
            side + "prompt_embeds_mask": ones(1, 12),
            side + "prompt_embeds_2": rand(1, 6, 32, seed=len(side)),
            side + "prompt_embeds_mask_2": ones(1, 6),
        }
    parts = {"transformer": dit, "vae": vae, "scheduler": diffusers.FlowMatchEulerDiscreteScheduler(shift=7.0)}
    return Tiny("HunyuanVideo15AutoBlocks", parts, SMALL | text)


def ltx2_vae() -> Any:
    return tiny(
        diffusers.AutoencoderKLLTX2Video,
        latent_channels=4,
        block_out_channels=(8, 8, 8, 8),
        layers_per_block=(1,) * 5,
        decoder_block_out_channels=(16, 32, 64),
        decoder_layers_per_block=(1,) * 4,
        patch_size=1,
        spatial_compression_ratio=8,
        temporal_compression_ratio=8,
    )


def ltx2() -> Tiny:
    dit = tiny(
        diffusers.LTX2VideoTransformer3DModel,
        in_channels=4,
        out_channels=4,
        num_attention_heads=2,
        attention_head_dim=8,
        cross_attention_dim=16,
        audio_in_channels=4,
        audio_out_channels=4,
        audio_num_attention_heads=2,
        audio_attention_head_dim=4,
        audio_cross_attention_dim=8,
        num_layers=2,
        caption_channels=16,
    )
    audio_vae = tiny(
        diffusers.AutoencoderKLLTX2Audio,
        base_channels=4,
        output_channels=2,
        ch_mult=(1,),
        num_res_blocks=1,
        in_channels=2,
        resolution=32,
        latent_channels=2,
        mel_bins=8,
        mid_block_add_attention=False,
    )
    vae = ltx2_vae()
    # Temporal tiles: the only way in which this VAE, which is not causal, can be streamed.
    vae.use_framewise_decoding = True
    vocoder = tiny(LTX2Vocoder, in_channels=16, hidden_channels=32, upsample_kernel_sizes=[4], upsample_factors=[2])
    text = {side + "connector_attention_mask": ones(1, 16) for side in SIDES}
    for kind in ("prompt_embeds", "audio_prompt_embeds"):
        text |= {f"{side}connector_{kind}": rand(1, 16, 16, seed=len(side + kind)) for side in SIDES}
    guider = diffusers.LTX2Guidance(
        guidance_scale=3.0, stg_scale=1.0, modality_scale=3.0, spatio_temporal_guidance_blocks=[1]
    )
    parts = {
        "transformer": dit,
        "vae": vae,
        "audio_vae": audio_vae,
        "vocoder": vocoder,
        "guider": guider,
        "scheduler": diffusers.FlowMatchEulerDiscreteScheduler(),
    }
    inputs = {
        "height": 32,
        "width": 32,
        "num_frames": 49,
        "frame_rate": 25.0,
        "batch_size": 1,
        "dtype": torch.float32,
        "use_cross_timestep": False,
    }
    return Tiny("LTX2AutoBlocks", parts, inputs | text, audio_rate=("vocoder", "output_sampling_rate"))


def minimax_h3_vae() -> Any:
    return tiny(
        diffusers.AutoencoderKLMiniMaxH3,
        latent_channels=4,
        block_out_channels=(8, 16, 16, 16),
        layers_per_block=1,
        spatial_downsample_factors=(2, 2, 2, 2),
        temporal_downsample_factors=(1, 1, 2, 2),
        norm_num_groups=8,
        decoder_num_layers=1,
        decoder_num_attention_heads=2,
        decoder_attention_head_dim=8,
        decoder_ffn_mult=2,
        decoder_num_register_tokens=2,
        latents_mean=(0.0,) * 4,
        latents_std=(1.0,) * 4,
    )


def minimax_h3() -> Tiny:
    dit = tiny(
        diffusers.MiniMaxH3Transformer3DModel,
        num_attention_heads=2,
        attention_head_dim=16,
        hidden_size=24,
        num_layers=1,
        num_refiner_layers=1,
        ffn_dim=32,
        in_channels=4,
        audio_in_channels=8,
        text_dim=8,
        freq_dim=8,
        time_embed_hidden_dim=24,
        time_embed_dim=16,
        rope_freq_dim=2,
    )
    audio_vae = tiny(
        diffusers.AutoencoderKLMiniMaxH3Audio,
        encoder_dim=4,
        encoder_rates=(2, 2),
        latent_dim=32,
        latent_channels=8,
        num_attention_heads=2,
        decoder_dim=16,
        decoder_rates=(2, 2),
        decoder_kernel_sizes=(4, 4),
        latents_mean=[0.0] * 8,
        latents_std=[1.0] * 8,
    )
    parts = {
        "transformer": dit,
        "vae": minimax_h3_vae(),
        "audio_vae": audio_vae,
        "scheduler": diffusers.MiniMaxH3Scheduler(),
        "audio_scheduler": diffusers.MiniMaxH3Scheduler(),
    }
    inputs = {
        "height": 32,
        "width": 32,
        "num_frames": 124,
        "prompt_embeds": rand(1, 6, 8),
        "text_token_tags": ones(6),
    }
    return Tiny("MiniMaxH3Blocks", parts, inputs)


def cosmos3_dit(**more: Any) -> Any:
    return tiny(
        diffusers.Cosmos3OmniTransformer,
        head_dim=6,
        hidden_size=12,
        intermediate_size=24,
        latent_channel=16,
        latent_patch_size=1,
        num_attention_heads=2,
        num_hidden_layers=2,
        num_key_value_heads=1,
        patch_latent_dim=16,
        rope_axes_dim=[1, 1, 1],
        vocab_size=32,
        **more,
    )


def cosmos3_sound() -> Tiny:
    sound = tiny(
        diffusers.Cosmos3AVAEAudioTokenizer,
        sampling_rate=16,
        hop_size=4,
        enc_dim=4,
        enc_num_blocks=1,
        enc_n_fft=8,
        enc_hop_length=2,
        enc_latent_dim=8,
        enc_c_mults=(1,),
        enc_strides=(2,),
        vocoder_input_dim=8,
        dec_dim=4,
        dec_c_mults=(1, 2),
        dec_strides=(2, 2),
        dec_out_channels=2,
    )
    dit = cosmos3_dit(sound_gen=True, sound_dim=8, sound_latent_fps=4.0)
    inputs = {
        "fps": 4.0,
        "cond_input_ids": [1, 2, 3],
        "uncond_input_ids": [1],
        "guidance_scale": 2.0,
        "enable_sound": True,
    }
    parts = wan_parts(transformer=dit, sound_tokenizer=sound)
    return Tiny("Cosmos3OmniBlocks", parts, SMALL | inputs, chunk_count="num_chunks")


def cosmos3_transfer() -> Tiny:
    """Nested: a loop over chunks, with VAE encode and decode inside, around the step loop."""
    parts = wan_parts(transformer=cosmos3_dit())
    inputs = {
        "control_videos": {"edge": list(rand(13, 16, 16, 3).sigmoid().numpy())},
        "height": 16,
        "width": 16,
        "fps": 4.0,
        "num_video_frames_per_chunk": 5,
        "cond_input_ids": [1, 2],
        "uncond_input_ids": [1],
        "guidance_scale": 2.0,
    }
    blocks = create_blocks("Cosmos3OmniBlocks")
    stage = SequentialPipelineBlocks.from_blocks_dict({"setup": Cosmos3TransferSetupStep()})
    state = run_stage(
        build_pipe(blocks, stage, parts, neighbours=neighbours_of(parts)), stage, PipelineState(inputs, {})
    )
    return Tiny("Cosmos3OmniBlocks", parts, state.values, chunk_count="num_chunks")


def helios() -> Tiny:
    memory = {"has_multi_term_memory_patch": True, "guidance_cross_attn": True, "zero_history_timestep": True}
    scheduler = diffusers.HeliosScheduler(stage_range=[0, 1], stages=1, use_dynamic_shifting=True)
    dit = wan_dit(diffusers.HeliosTransformer3DModel, rope_dim=(4, 4, 4), **memory)
    parts = wan_parts(transformer=dit, scheduler=scheduler)
    return Tiny("HeliosAutoBlocks", parts, SMALL | wan_text() | {"num_frames": 99}, chunk_count="num_latent_chunk")


def wan_animate2() -> Tiny:
    dit = tiny(
        diffusers.WanAnimate2Transformer3DModel,
        text_len=16,
        in_dim=36,
        dim=128,
        ffn_dim=256,
        freq_dim=64,
        text_dim=32,
        out_dim=16,
        num_heads=4,
        num_layers=2,
        use_img_emb=True,
    )
    inputs = {
        "height": 64,
        "width": 48,
        "segment_frame_length": 9,
        "prev_segment_conditioning_frames": 1,
        "crop_region": (0, 3, 64, 42),
        "driving_video_pixels": rand(1, 3, 25, 64, 48).clamp(-1, 1),
        "real_frame_len": 25,
        "num_segments": 3,
        "effective_segment": 8,
        "condition_clip_context": rand(1, 5, 1280),
        "reference_image_latents": rand(20, 1, 8, 6),
        "prompt_ref_embeds": rand(1, 16, 32),
        "encoder_hidden_states_image": rand(1, 5, 1280),
    }
    parts = wan_parts(transformer=dit, scheduler=SAMPLERS["dpm"]())
    tagged = ("encoder_hidden_states_image",)
    return Tiny("WanAnimate2Blocks", parts, inputs | wan_text(), tagged, chunk_count="num_segments")


WAN = (wan21_t2v, wan21_i2v, wan22_t2v, wan22_i2v, wan22_vace)
OTHERS = (hunyuan15, ltx2, minimax_h3, cosmos3_sound, cosmos3_transfer, helios, wan_animate2)
MAKERS: dict[str, Callable[[], Tiny]] = {maker.__name__: maker for maker in WAN + OTHERS}
