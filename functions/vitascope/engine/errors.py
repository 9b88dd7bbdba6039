"""What can go wrong in the engine.

EngineError
├── UnknownFamilyError     the folder holds a model that no row of the table covers
├── ModelFolderError       the folder is missing, partial, corrupt or refused; found at load, before any job
├── RequestError           the request does not fit this model
├── BlobError              a checkpoint or hand-over cannot be used
│   ├── BlobFormatError    it is not one, or it is damaged
│   └── BlobVersionError   it is one, but of other versions, another model or another request
└── DeviceMemoryError      the device has too little memory for this job
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


class EngineError(Exception):
    """Base of all errors that the engine raises for the world's faults."""


class UnknownFamilyError(EngineError):
    """The model index names a pipeline class that the engine does not know."""


class ModelFolderError(EngineError):
    """A model folder cannot be loaded; the text names the component or file and what to do."""


class RequestError(EngineError):
    """The request asks for something that this model cannot do."""


class BlobError(EngineError):
    """A checkpoint or hand-over cannot be used."""


class BlobFormatError(BlobError):
    """The bytes are no blob of ours, or are damaged."""


class BlobVersionError(BlobError):
    """The blob was made by other library versions, another model or another request: going on would not be exact."""


class DeviceMemoryError(EngineError):
    """The device ran out of memory. The job's own tensors are released when the exception is dropped."""


@contextmanager
def memory_errors_translated() -> Iterator[None]:
    """Turns torch's out-of-memory errors, which differ by device, into `DeviceMemoryError`."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise DeviceMemoryError(str(error)) from error
    except RuntimeError as error:
        # The CPU allocator has no error type of its own.
        if "DefaultCPUAllocator" in str(error):
            raise DeviceMemoryError(str(error)) from error
        raise
