"""Stage ``export``: a standard diffusers repository of the trained parts."""

from pathlib import Path
from typing import Final

from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanPipeline, WanTransformer3DModel

from demo_model.checkpoint import load_checkpoint
from demo_model.latents import load_latent_stats
from demo_model.text_encoder import load_text
from demo_model.train_denoiser import DENOISER_CONFIG
from demo_model.vae_start import VAE_CONFIG

MAX_WEIGHTS_BYTES: Final = 8 * 2**20  # what a package may reasonably carry
FLOW_SHIFT: Final = 3.0


def export_model(work: Path, out: Path) -> None:
    """Write autoencoder and denoiser (its running mean) as float16, the text encoder as float32.

    transformers loads a model in its stored precision, diffusers in float32: so the text encoder keeps float32.

    Raises:
        ValueError: the weights are larger than MAX_WEIGHTS_BYTES.
    """
    mean, deviation = (stat.flatten().tolist() for stat in load_latent_stats(work))
    tokenizer, encoder = load_text(work)
    vae = AutoencoderKLWan(**VAE_CONFIG, latents_mean=mean, latents_std=deviation)
    vae.load_state_dict(load_checkpoint(work / "vae.pt")["model"])
    denoiser = WanTransformer3DModel(**DENOISER_CONFIG)
    denoiser.load_state_dict(load_checkpoint(work / "dit.pt")["ema"])
    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction",
        use_flow_sigmas=True,
        flow_shift=FLOW_SHIFT,
        num_train_timesteps=1000,
        solver_order=2,
    )
    pipeline = WanPipeline(
        tokenizer=tokenizer,
        text_encoder=encoder,
        vae=vae.half(),
        scheduler=scheduler,
        transformer=denoiser.half(),
    )
    pipeline.save_pretrained(out)
    size = sum(file.stat().st_size for file in out.rglob("*.safetensors"))
    print(f"{out}: {size / 2**20:.2f} MiB of safetensors")
    if size > MAX_WEIGHTS_BYTES:
        raise ValueError(f"{size} bytes of weights, at most {MAX_WEIGHTS_BYTES}")
