"""What goes wrong on the way to NATS, in our words.

Everything becomes `bus_unavailable`: the caller can only try again, and a person reads in the detail what to do.
"""

from vitascope.contracts.failures import FailureCode, VitascopeError

WRONG_LAST_SEQUENCE = frozenset({10071, 10164})
"""Compare-and-set lost (JSStreamWrongLastSequenceErrF, JSStreamWrongLastSequenceConstantErr)."""
STREAM_NOT_FOUND = 10059
STREAM_NAME_IN_USE = 10058
CONSUMER_NOT_FOUND = 10014
CONSUMER_EXISTS = 10148
MESSAGE_NOT_FOUND = 10037
SYSTEM_UNAVAILABLE = 10008

_REMEDIES = {
    STREAM_NOT_FOUND: "The stream is missing: start the scheduler, which creates all streams.",
    SYSTEM_UNAVAILABLE: "JetStream is starting or has no leader yet: wait, or look at the NATS server's log.",
    10023: "The server has no room for it: raise max_file_store and max_memory_store, or free disk space.",
    10047: "The server has no room for it: raise max_file_store and max_memory_store, or free disk space.",
    10074: "There are fewer servers than replicas: lower VITASCOPE_NATS__REPLICAS, or start more servers.",
    10076: "JetStream is not enabled for this account: check the NATS server's configuration.",
    10039: "JetStream is not enabled for this account: check the NATS server's configuration.",
    10077: "The stream is full: work off or remove what is in it, or raise its bounds.",
}
"""By err_code of nats-server (server/errors.json): what a person can do about it."""


class ApiError(VitascopeError):
    """JetStream answered with an error.

    Attributes:
        err_code: the server's number for it.
    """

    def __init__(self, what: str, err_code: int, description: str) -> None:
        self.err_code = err_code
        remedy = _REMEDIES.get(err_code, "")
        super().__init__(FailureCode.BUS_UNAVAILABLE, f"{what}: {description} ({err_code}). {remedy}".strip())


def make_unreachable(what: str, why: str) -> VitascopeError:
    """The error for a server that does not answer."""
    return VitascopeError(FailureCode.BUS_UNAVAILABLE, f"{what}: {why}")
