"""`python -m vitascope_operator schedule` runs the scheduler; it needs no Kubernetes."""

import sys

from vitascope.wiring import run_role
from vitascope_operator.wiring import ROLES


def main() -> None:
    """Run the role that the first argument names."""
    if len(sys.argv) != 2 or sys.argv[1] not in ROLES:  # noqa: PLR2004 (the module and the role)
        sys.exit(f"usage: python -m vitascope_operator {'|'.join(ROLES)}")
    sys.exit(run_role(sys.argv[1], ROLES))


if __name__ == "__main__":
    main()
