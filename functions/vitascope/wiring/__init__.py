"""Builds each process: the only package that names adapters, one module a process."""

from vitascope.wiring.ports import Ports, name_holder, open_ports, open_ready_ports
from vitascope.wiring.roles import ROLES, Role, run_role
from vitascope.wiring.signals import run_until_signal

__all__ = ["ROLES", "Ports", "Role", "name_holder", "open_ports", "open_ready_ports", "run_role", "run_until_signal"]
