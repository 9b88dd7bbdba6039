"""The denoise process. Its libraries are imported inside, so that an image holds no more than it needs."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vitascope.catalog import load_catalog
from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.runtime.settings import Settings
from vitascope.wiring.models import choose_models, fetch_models, load_models
from vitascope.wiring.ports import name_holder, open_ready_ports
from vitascope.wiring.stages import serve_stage

DENOISE_LIMIT = 2
"""One job in the sampler, and the one before it, whose latents are still going out."""


async def run_denoise(settings: Settings) -> int:
    """One denoise group."""
    from vitascope.denoise.extras import check_declared  # noqa: PLC0415 (see the module)
    from vitascope.denoise.group import GroupHeartbeat  # noqa: PLC0415
    from vitascope.denoise.handler import DenoiseHandler  # noqa: PLC0415
    from vitascope.denoise.modular import ModularDenoiser  # noqa: PLC0415
    from vitascope.engine.denoise_model import DenoiseModel  # noqa: PLC0415
    from vitascope.engine.device import choose_device, limit_threads, parse_dtype  # noqa: PLC0415

    own = settings.denoise
    entries = choose_models(load_catalog(settings.catalog), own.pool, own.models)
    models: dict[str, DenoiseModel] = {}
    edits = {entry.name: edit for entry in entries if (edit := entry.capabilities.latent_edit) is not None}
    async with open_ready_ports(settings, "denoise") as ports:
        row = GroupRow(
            pool=own.pool,
            group=own.group,
            models=tuple(entry.name for entry in entries),
            state=GroupState.STARTING,
            holder=name_holder(),
            seen=ports.clock.now(),
        )
        group, sampler = GroupHeartbeat(ports.registry, ports.clock, row), ThreadPoolExecutor(1, "sampler")

        def load(folders: dict[str, Path]) -> None:
            limit_threads(own.threads)
            device = choose_device(own.device)
            for entry in entries:
                folder, dtype = folders[entry.name], parse_dtype(entry.dtype)
                models[entry.name] = DenoiseModel.load(folder, dtype=dtype, device=device)
                check_declared(entry, models[entry.name].input_names)

        async def make_ready() -> None:
            folders = await fetch_models(settings, entries)
            await load_models(sampler, load, folders)
            group.ready()

        handler = DenoiseHandler(
            ledger=ports.ledger,
            bus=ports.bus,
            store=ports.store,
            clock=ports.clock,
            denoiser=ModularDenoiser(models, edits),
            group=group,
            settings=own,
            sampler=sampler,
        )
        async with group.beating():
            return await serve_stage(ports, handler, own, make_ready, group=own.group, limit=DENOISE_LIMIT)
