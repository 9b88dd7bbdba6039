"""Which addresses belong to the public internet."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.outbound.addresses import AddressRules, is_public

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "172.15.255.255",
    "172.32.0.1",
    "100.63.0.1",
    "2606:4700::1111",
    "2a00::1",
]
NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:8.8.8.8",
    "::ffff:127.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("text", PUBLIC)
def test_public(text: str) -> None:
    """Reachable by anybody."""
    assert is_public(ip_address(text))


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_not_public(text: str) -> None:
    """Ours, a neighbour's, a cloud's own, nobody's, many's, or another address in disguise."""
    assert not is_public(ip_address(text))
    with pytest.raises(VitascopeError) as caught:
        AddressRules().check_address(ip_address(text))
    assert FailureCode.ADDRESS_NOT_ALLOWED == caught.value.code
    assert text not in str(caught.value)


def test_scope_is_not_public() -> None:
    """An address with a zone means a link."""
    assert not is_public(ip_address("2606:4700::1111%eth0"))


@given(st.ip_addresses())
def test_no_laxer_than_the_standard_library(address: object) -> None:
    """What Python calls private, loopback, link-local, multicast or reserved is never public here."""
    found = ip_address(str(address))
    if found.is_private or found.is_loopback or found.is_link_local or found.is_multicast or found.is_reserved:
        assert not is_public(found)


def test_let_in_by_the_operator() -> None:
    """One network of the operator's own, and nothing beside it, also not in another dress."""
    rules = AddressRules(allowed=(ip_network("10.1.0.0/16"),))
    rules.check_address(ip_address("10.1.2.3"))
    for text in ("10.2.0.1", "127.0.0.1", "::ffff:10.1.2.3"):
        with pytest.raises(VitascopeError):
            rules.check_address(ip_address(text))
