"""What keeps the one-machine run from starting or going on."""


class LocalRunError(Exception):
    """A failure that the person at the keyboard has to know about.

    Args:
        happened: What happened, as one clause without a full stop.
        why: The cause as far as it is known.
        remedy: What to do about it.
    """

    def __init__(self, happened: str, *, why: str, remedy: str) -> None:
        super().__init__(f"{happened}: {why}. {remedy}.")
        self.happened = happened
        self.why = why
        self.remedy = remedy


class FolderError(LocalRunError):
    """The data folder cannot be used: not writable, too full, or held by another run."""


class ProgramError(LocalRunError):
    """A server program is missing, too old or cannot be run."""


class PortInUseError(LocalRunError):
    """A port that was asked for is taken, or no port is free."""


class ChildFailedError(LocalRunError):
    """A child process could not be brought up or kept up."""
