"""Which addresses may be connected to: those of the public internet, and the networks that the operator lets in."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TypeAlias

from vitascope.contracts.failures import FailureCode, VitascopeError

IpAddress: TypeAlias = IPv4Address | IPv6Address
IpNetwork: TypeAlias = IPv4Network | IPv6Network

_NOT_PUBLIC_4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared address space; one cloud's metadata service is in it
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's host agent: public by its number, reachable from inside only
        "169.254.0.0/16",  # link-local: most clouds' metadata service
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments; one cloud's metadata service is in it
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # multicast tunnels
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
"""IANA's registry of special-purpose IPv4 addresses, multicast, and what clouds keep for themselves."""
_GLOBAL_6 = IPv6Network("2000::/3")
"""All of IPv6 that is handed out; loopback, private, link-local, mapped and translated addresses are outside."""
_NOT_PUBLIC_6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, and Teredo, which carries an IPv4 address
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which carries an IPv4 address
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)


@dataclass(frozen=True)
class AddressRules:
    """What may be reached.

    Attributes:
        allow_http: whether plain http may be used beside https.
        follow_redirects: whether a fetch goes on where the answer points to; each hop is checked like the first.
        allowed: networks that may be reached although they are not public, on every port.
    """

    allow_http: bool = True
    follow_redirects: bool = True
    allowed: tuple[IpNetwork, ...] = ()

    def is_let_in(self, address: IpAddress) -> bool:
        """Whether the operator lets that address in by name of its network."""
        return any(address in network for network in self.allowed)

    def check_address(self, address: IpAddress) -> None:
        """Refuse what is neither public nor let in. The text does not say what the address is: names are resolved here.

        Raises:
            VitascopeError: `address_not_allowed`.
        """
        if not is_public(address) and not self.is_let_in(address):
            detail = "It leads to a private, local or reserved network."
            raise VitascopeError(FailureCode.ADDRESS_NOT_ALLOWED, detail)


def is_public(address: IpAddress) -> bool:
    """Whether the address belongs to one host of the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    return address.scope_id is None and address in _GLOBAL_6 and not any(address in n for n in _NOT_PUBLIC_6)
