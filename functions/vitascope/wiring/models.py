"""The models that a process serves: chosen from the catalog, fetched, loaded."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

from vitascope.adapters.s3 import S3ObjectStore
from vitascope.catalog import Catalog
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.models import ModelEntry
from vitascope.runtime.settings import Settings
from vitascope.wiring.ports import make_s3_client


def choose_models(catalog: Catalog, pool: str, names: tuple[str, ...]) -> tuple[ModelEntry, ...]:
    """The catalog's models that a process serves: those named, else all of its pool.

    Raises:
        ValueError: a name is not in the catalog, or the pool has no models.
    """
    unknown = [name for name in names if catalog.get(name) is None]
    if unknown:
        raise ValueError(f"no model {', '.join(unknown)} in the catalog, which has {', '.join(catalog.names)}")
    chosen = tuple(entry for entry in catalog.entries if entry.name in names) if names else catalog.of_pool(pool)
    if not chosen:
        raise ValueError(f"the catalog has no model for the pool {pool}")
    return chosen


async def fetch_models(settings: Settings, entries: tuple[ModelEntry, ...]) -> dict[str, Path]:
    """The folder of each model by name; fetched into the cache if it lies elsewhere.

    Raises:
        VitascopeError: `model_folder_invalid`, there is no model at the source.
    """
    from vitascope.engine.errors import EngineError  # noqa: PLC0415 (needs the engine's libraries)
    from vitascope.model_source import fetch_model  # noqa: PLC0415 (as above)

    def open_bucket(bucket: str) -> S3ObjectStore:
        return S3ObjectStore(make_s3_client(settings.s3, bucket))

    try:
        return {entry.name: await fetch_model(entry.source, settings.cache, open_bucket) for entry in entries}
    except EngineError as error:
        raise VitascopeError(FailureCode.MODEL_FOLDER_INVALID, str(error)) from error


async def load_models(thread: Executor, load: Callable[[dict[str, Path]], None], folders: dict[str, Path]) -> None:
    """Load in the thread that will compute.

    Raises:
        VitascopeError: `model_folder_invalid`; the process should not be started again before that is mended.
    """
    from vitascope.engine.errors import EngineError  # noqa: PLC0415 (needs the engine's libraries)

    try:
        await asyncio.get_running_loop().run_in_executor(thread, load, folders)
    except (EngineError, ValueError) as error:
        raise VitascopeError(FailureCode.MODEL_FOLDER_INVALID, str(error)) from error
