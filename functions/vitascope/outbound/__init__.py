"""Requests to addresses that strangers name: checked, pinned, bounded.

An address is judged after the name is resolved, and the address that was judged is the one that is connected to, on
every hop. Whoever fetches media, posts events or asks a service that a tenant named does it through `Outbound`; an
operator's own private servers are let in by `AddressRules.allowed`.
"""

from vitascope.outbound.addresses import AddressRules, IpAddress, IpNetwork
from vitascope.outbound.client import Answer, Fetched, Outbound
from vitascope.outbound.resolve import Resolver, SystemResolver

__all__ = [
    "AddressRules",
    "Answer",
    "Fetched",
    "IpAddress",
    "IpNetwork",
    "Outbound",
    "Resolver",
    "SystemResolver",
]
