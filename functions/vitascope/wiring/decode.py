"""The decode process. Its libraries are imported inside, so that an image holds no more than it needs."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vitascope.catalog import load_catalog
from vitascope.contracts.flow import Stage
from vitascope.contracts.pools import GroupState
from vitascope.runtime.settings import Settings
from vitascope.wiring.models import choose_models, fetch_models, load_models
from vitascope.wiring.ports import open_ready_ports
from vitascope.wiring.stages import make_presence, serve_stage


async def run_decode(settings: Settings) -> int:
    """One decode process."""
    from vitascope.decode.handler import DecodeHandler  # noqa: PLC0415 (see the module)
    from vitascope.decode.modular import ModularDecoder  # noqa: PLC0415
    from vitascope.engine.decode_model import DecodeModel  # noqa: PLC0415
    from vitascope.engine.device import choose_device, limit_threads, parse_dtype  # noqa: PLC0415

    own = settings.decode
    entries = choose_models(load_catalog(settings.catalog), own.pool, own.models)
    models: dict[str, DecodeModel] = {}
    async with open_ready_ports(settings, "decode") as ports:
        presence, thread = make_presence(ports, Stage.DECODE, own.pool), ThreadPoolExecutor(1, "decoder")

        def load(folders: dict[str, Path]) -> None:
            limit_threads(own.threads)
            device = choose_device(own.device)
            for entry in entries:
                folder, dtype = folders[entry.name], parse_dtype(entry.dtype)
                models[entry.name] = DecodeModel.load(folder, dtype=dtype, device=device)

        async def make_ready() -> None:
            folders = await fetch_models(settings, entries)
            await load_models(thread, load, folders)
            presence.change(state=GroupState.IDLE)

        handler = DecodeHandler(
            ledger=ports.ledger,
            bus=ports.bus,
            store=ports.store,
            clock=ports.clock,
            decoder=ModularDecoder(models),
            settings=own,
            thread=thread,
        )
        async with presence.beating():
            return await serve_stage(ports, handler, own, make_ready)
