"""Which device a process computes on, and with how many threads."""

import torch

AUTO = "auto"


def choose_device(wished: str) -> str:
    """The torch device to use: `auto` takes the first accelerator if there is one, else the CPU.

    Raises:
        ValueError: torch knows no such device, or this machine has none.
    """
    if wished == AUTO:
        found = torch.accelerator.current_accelerator(check_available=True)
        return found.type if found is not None else "cpu"
    try:
        torch.empty(0, device=wished)
    except (RuntimeError, AssertionError) as error:  # AssertionError: torch was built without it
        raise ValueError(f"the device {wished!r} cannot be used: {error}") from error
    return wished


def limit_threads(threads: int | None) -> None:
    """Threads that torch computes with; None leaves torch's own choice, one a core."""
    if threads is not None:
        torch.set_num_threads(threads)


def parse_dtype(name: str) -> torch.dtype:
    """The torch dtype of a catalog's word.

    Raises:
        ValueError: there is none of that name, or it is no floating-point type.
    """
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ValueError(f"{name!r} is no floating-point dtype: take bfloat16, float16 or float32")
    return found
