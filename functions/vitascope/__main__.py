"""`python -m vitascope ROLE` runs one process of the pipeline; anything else is the command line.

Only the role's own libraries are imported, so that an image holds no more than its process needs.
"""

import os
import sys

ROLES = ("ingress", "denoise", "decode", "encode", "publish", "deliver")


def main() -> None:
    """Run the role that the first argument names, or the command line."""
    if len(sys.argv) == 2 and sys.argv[1] in ROLES:  # noqa: PLR2004 (the module and the role)
        # Threads of torch that wait for each other give their core up. By default they spin, which on a processor that
        # others need, too, makes a step ten times as long. Read when the library is loaded, so it is said here.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        from vitascope.wiring import run_role  # noqa: PLC0415 (see above)

        sys.exit(run_role(sys.argv[1]))
    from vitascope.cli.app import main as run_command_line  # noqa: PLC0415 (see above)

    run_command_line()


if __name__ == "__main__":
    main()
