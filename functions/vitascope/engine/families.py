"""The families of video models that the engine runs: one table row each, and no code.

A row says which Modular Diffusers blocks run a model folder, which inputs turn its optional branches on, and where the
frame rate and the sound rate come from. Splitting, hand-over, loop, checkpoint and frame stream are the same for all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from vitascope.engine.errors import UnknownFamilyError

Tasks: TypeAlias = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Family:
    """One row of the table.

    Attributes:
        name: our name of the family.
        index_classes: `_class_name` of `model_index.json` or `modular_model_index.json`.
        blocks: class name of the Modular Diffusers blocks in `diffusers`.
        tasks: task name -> inputs that must be present for it, beside the prompt. A folder that lacks a component of a
            task does not offer that task.
        requires: index entries that must be set (not null, not false) for this row; a more demanding row goes first.
        refuses: index entries that, when set, put a folder out of this row's reach -> the reason, for the error.
        features: what the output holds beside pictures: "audio".
        fps_input: the block input that takes the frame rate, in frames per second; None where the model has none.
        fixed_fps: the frame rate the model was made for, where it is a constant of the family.
        sound_input: the block input that asks for sound; None where the model always makes it, or never.
        audio_rate: (component, config entry) with the sample rate in Hz; None where the decode block gives it itself.
        chunk_count: the state value that counts the passes of a loop around (or instead of) the step loop.
    """

    name: str
    index_classes: tuple[str, ...]
    blocks: str
    tasks: Tasks
    requires: tuple[str, ...] = ()
    refuses: Mapping[str, str] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    fps_input: str | None = None
    fixed_fps: int | None = None
    sound_input: str | None = None
    audio_rate: tuple[str, str] | None = None
    chunk_count: str | None = None


NO_EXPAND = {"expand_timesteps": "Wan 2.2 TI2V-5B needs a timestep per token, which Modular Diffusers does not have"}
AUDIO = frozenset({"audio"})
TEXT: Tasks = {"t2v": ()}
IMAGE: Tasks = {"i2v": ("image",)}
BOTH: Tasks = {**TEXT, **IMAGE}
HELIOS: Tasks = {**BOTH, "v2v": ("video",)}
COSMOS: Tasks = {**HELIOS, "s2v": ("enable_sound",), "control": ("control_videos",)}
VACE: Tasks = {**TEXT, "control": ("video", "mask"), "edit": ("video",), "i2v": ("reference_images",)}

FAMILIES = (
    Family("wan2.2-t2v", ("WanPipeline", "Wan22ModularPipeline"), "Wan22Blocks", TEXT, ("boundary_ratio",)),
    Family("wan2.1-t2v", ("WanPipeline", "WanModularPipeline"), "WanBlocks", TEXT, refuses=NO_EXPAND),
    Family(
        "wan2.2-i2v",
        ("WanImageToVideoPipeline", "Wan22Image2VideoModularPipeline"),
        "Wan22Image2VideoBlocks",
        IMAGE,
        ("boundary_ratio",),
    ),
    Family(
        "wan2.1-i2v",
        ("WanImageToVideoPipeline", "WanImage2VideoModularPipeline"),
        "WanImage2VideoAutoBlocks",
        {**IMAGE, "flf2v": ("image", "last_image")},
        refuses=NO_EXPAND,
    ),
    Family("wan2.2-vace", ("WanVACEPipeline", "Wan22VaceModularPipeline"), "Wan22VaceBlocks", VACE),
    Family("hunyuan1.5-t2v", ("HunyuanVideo15Pipeline",), "HunyuanVideo15AutoBlocks", TEXT),
    Family("hunyuan1.5-i2v", ("HunyuanVideo15ImageToVideoPipeline",), "HunyuanVideo15AutoBlocks", IMAGE),
    Family(
        "hunyuan1.5",
        ("HunyuanVideo15ModularPipeline",),
        "HunyuanVideo15AutoBlocks",
        BOTH,
    ),
    Family(
        "ltx",
        ("LTXPipeline", "LTXImageToVideoPipeline", "LTXModularPipeline"),
        "LTXAutoBlocks",
        BOTH,
        fps_input="frame_rate",
    ),
    Family(
        "ltx2",
        ("LTX2Pipeline", "LTX2ImageToVideoPipeline", "LTX2ModularPipeline"),
        "LTX2AutoBlocks",
        BOTH,
        features=AUDIO,
        fps_input="frame_rate",
        audio_rate=("vocoder", "output_sampling_rate"),
    ),
    Family(
        "ltx2.5",
        ("LTX25ModularPipeline",),
        "LTX25AutoBlocks",
        BOTH,
        features=AUDIO,
        fps_input="frame_rate",
        audio_rate=("vocoder", "output_sampling_rate"),
    ),
    Family(
        "minimax-h3",
        ("MiniMaxH3ModularPipeline",),
        "MiniMaxH3Blocks",
        BOTH,
        features=AUDIO,
        fixed_fps=24,
    ),
    Family(
        "cosmos3",
        ("Cosmos3OmniPipeline", "Cosmos3OmniModularPipeline"),
        "Cosmos3OmniBlocks",
        COSMOS,
        features=AUDIO,
        fps_input="fps",
        sound_input="enable_sound",
        chunk_count="num_chunks",
    ),
    Family(
        "helios",
        ("HeliosPipeline", "HeliosModularPipeline"),
        "HeliosAutoBlocks",
        HELIOS,
        chunk_count="num_latent_chunk",
    ),
    Family(
        "helios-pyramid-distilled",
        ("HeliosPyramidPipeline", "HeliosPyramidDistilledModularPipeline"),
        "HeliosPyramidDistilledAutoBlocks",
        HELIOS,
        ("is_distilled",),
        chunk_count="num_latent_chunk",
    ),
    Family(
        "helios-pyramid",
        ("HeliosPyramidPipeline", "HeliosPyramidModularPipeline"),
        "HeliosPyramidAutoBlocks",
        HELIOS,
        chunk_count="num_latent_chunk",
    ),
    Family(
        "wan-animate-2",
        ("WanAnimate2ModularPipeline",),
        "WanAnimate2Blocks",
        {"edit": ("image", "driving_video")},
        fps_input="fps",
        chunk_count="num_segments",
    ),
)


def find_family(index: Mapping[str, Any]) -> Family:
    """The row for a model index (the parsed JSON).

    Raises:
        UnknownFamilyError: no row covers it; the text names those that are known.
    """
    name = index.get("_class_name")
    rows = [row for row in FAMILIES if name in row.index_classes]
    fitting = [row for row in rows if all(_is_set(index, entry) for entry in row.requires)]
    if not fitting:
        known = ", ".join(sorted({known for row in FAMILIES for known in row.index_classes}))
        raise UnknownFamilyError(f"the engine does not know the pipeline class {name!r}; it knows {known}")
    row = fitting[0]
    for entry, reason in row.refuses.items():
        if _is_set(index, entry):
            raise UnknownFamilyError(f"{name} with {entry}={index[entry]!r} is not supported: {reason}")
    return row


def _is_set(index: Mapping[str, Any], entry: str) -> bool:
    return index.get(entry) not in (None, False)
