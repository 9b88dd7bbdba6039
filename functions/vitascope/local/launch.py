"""Becomes the program of a child process, tied to its parent's life: `launch.py PARENT_PID PROGRAM [ARGUMENT ...]`.

Run as a file by a bare interpreter (standard library only), and not as a function between fork and exec, which is
unsafe in a parent with threads. On Linux the kernel kills the child as soon as the parent's starting thread ends, even
by SIGKILL; elsewhere `vitascope.local.orphans` does it at the next start.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h
EXIT_ORPHANED = 125
EXIT_NOT_RUN = 127  # what shells answer for a program that cannot be run


def main() -> int:
    """Replaces this process; returns an exit status only if that fails."""
    parent_pid, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux" and ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        print(f"cannot be tied to its parent: {os.strerror(ctypes.get_errno())}", file=sys.stderr)  # noqa: T201 - the log
        return EXIT_NOT_RUN
    if os.getppid() != parent_pid:  # it ended before the tie was made
        return EXIT_ORPHANED
    try:
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        print(f"{command[0]} cannot be run: {error.strerror}", file=sys.stderr)  # noqa: T201 - the log
    return EXIT_NOT_RUN


if __name__ == "__main__":
    sys.exit(main())
