"""Exit codes, and the error that a command ends with."""

from enum import IntEnum


class Exit(IntEnum):
    """What the exit status of `vitascope` means. `docs/cli.md` lists them for users."""

    OK = 0
    FAILED = 1
    """The job failed, was refused or withheld."""
    USAGE = 2
    """The command line itself is wrong."""
    REJECTED = 3
    """The service did not take the request: a field or the key is wrong, or there is no such job."""
    UNREACHABLE = 4
    """No service answers at that address."""
    CANCELLED = 5
    """The job was cancelled."""
    NOT_READY = 6
    """The service answers, but is overloaded or unavailable; or something is missing on this machine."""
    INTERRUPTED = 130
    """Ctrl-C."""


class CommandError(Exception):
    """Ends a command: what happened, why, and what to do about it.

    Attributes:
        code: the exit status.
        what: what happened, one line.
        why: the cause, if it is known.
        fix: what to do, if something can be done.
        word: the service's own code of the error, such as `not_found`; empty if it is not the service's.
    """

    def __init__(self, code: Exit, what: str, *, why: str = "", fix: str = "", word: str = "") -> None:
        self.code, self.what, self.why, self.fix, self.word = code, what, why, fix, word
        super().__init__(what)

    def to_json(self) -> dict[str, str | int]:
        """The form for programs."""
        said = {"what": self.what, "code": self.word, "why": self.why, "fix": self.fix}
        return {"event": "error", **said, "exit": int(self.code)}
