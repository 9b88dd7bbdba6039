"""What is understood of a URL, and what is refused before any name is looked up."""

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.outbound.addresses import AddressRules
from vitascope.outbound.urls import MAX_URL_CHARS, read_redirect, read_url

RULES = AddressRules()
LOCAL = AddressRules(allowed=(ip_network("127.0.0.1/32"),))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://EXAMPLE.com/A?b=C#d", "https://example.com/A?b=C"),
        ("http://example.com:80/", "http://example.com/"),
        ("http://example.com:8080/x", "http://example.com:8080/x"),
        ("https://example.com:/x", "https://example.com/x"),
        ("https://example.com./x", "https://example.com/x"),
        ("https://example.com/a%20b?c=%2F&d=ä", "https://example.com/a%20b?c=%2F&d=%C3%A4"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
        ("https://[2606:4700:0::1111]/", "https://[2606:4700::1111]/"),
        ("https://a_b.example.com/", "https://a_b.example.com/"),
    ],
)
def test_understood(url: str, expected: str) -> None:
    """In one form, which is what is connected to."""
    assert expected == read_url(url, RULES).url


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("", id="empty"),
        pytest.param("example.com/a", id="no scheme"),
        pytest.param("//example.com/a", id="relative"),
        pytest.param("file:///etc/passwd", id="file"),
        pytest.param("ftp://example.com/", id="ftp"),
        pytest.param("gopher://example.com/", id="gopher"),
        pytest.param("dict://example.com:2628/", id="dict"),
        pytest.param("data:image/png;base64,AA==", id="data"),
        pytest.param("jar:https://example.com!/", id="jar"),
        pytest.param("https:///a", id="no host"),
        pytest.param("https://user@example.com/", id="user"),
        pytest.param("https://user:word@example.com/", id="password"),
        pytest.param("https://example.com@127.0.0.1/", id="host after an at sign"),
        pytest.param("https://example.com\\@127.0.0.1/", id="backslash"),
        pytest.param("https://example.com/a b", id="space"),
        pytest.param("https://example.com/\r\nHost: x", id="new line"),
        pytest.param("https://exa\tmple.com/", id="tab"),
        pytest.param("https://example.com:0/", id="port 0"),
        pytest.param("https://example.com:65536/", id="port too large"),
        pytest.param("https://example.com:x/", id="port no number"),
        pytest.param("https://example.com:22/", id="port of ssh"),
        pytest.param("http://example.com:25/", id="port of smtp"),
        pytest.param("https://exam%70le.com/", id="percent in the host"),
        pytest.param("https://[::1/", id="bracket left open"),
        pytest.param("https://[fe80::1%25eth0]/", id="zone"),
        pytest.param("https://[::g]/", id="no address"),
        pytest.param("https://a..b/", id="empty label"),
        pytest.param(f"https://{'a' * 64}.example/", id="label too long"),
        pytest.param("https://example.com/" + "a" * MAX_URL_CHARS, id="too long"),
        pytest.param("http://127.0.0.1/", id="loopback"),
        pytest.param("http://127.1/", id="two numbers"),
        pytest.param("http://2130706433/", id="decimal"),
        pytest.param("http://0x7f000001/", id="hexadecimal"),
        pytest.param("http://0x7f.0.0.1/", id="hexadecimal part"),
        pytest.param("http://0177.0.0.1/", id="octal"),
        pytest.param("http://017700000001/", id="octal in one"),
        pytest.param("http://127.0.0.1./", id="dot at the end"),
        pytest.param("http://127.0.0.0x1/", id="hexadecimal end"),
        pytest.param("http://127。0。0。1/", id="ideographic dots"),
        pytest.param("http://①②⑦.0.0.1/", id="circled digits"),
        pytest.param("http://[::1]/", id="loopback of IPv6"),
        pytest.param("http://[::ffff:127.0.0.1]/", id="mapped"),
        pytest.param("http://[::ffff:7f00:1]/", id="mapped in hexadecimal"),
        pytest.param("http://[::ffff:8.8.8.8]/", id="mapped public"),
        pytest.param("http://169.254.169.254/latest/meta-data/", id="metadata"),
        pytest.param("http://[fd00:ec2::254]/", id="metadata of IPv6"),
        pytest.param("http://0/", id="zero"),
    ],
)
def test_refused(url: str) -> None:
    """With one code; the text names the rule, and shows nothing of the URL."""
    with pytest.raises(VitascopeError) as caught:
        read_url(url, RULES)

    assert FailureCode.ADDRESS_NOT_ALLOWED == caught.value.code
    assert "." in caught.value.detail


def test_https_only() -> None:
    """Where the operator says so."""
    with pytest.raises(VitascopeError, match="Only https is"):
        read_url("http://example.com/", AddressRules(allow_http=False))


def test_ports_of_a_network_that_is_let_in() -> None:
    """The operator's own servers may be anywhere."""
    assert 81 == read_url("http://127.0.0.1:81/", LOCAL).port


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/b?c", "https://example.com/b?c"),
        ("b", "https://example.com/x/b"),
        ("//other.example/b", "https://other.example/b"),
        ("https://other.example:8443/b", "https://other.example:8443/b"),
    ],
)
def test_redirect(location: str, expected: str) -> None:
    """Taken from where it was said."""
    assert expected == read_redirect(read_url("https://example.com/x/a", RULES), location, RULES).url


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "http://example.com/", "//127.0.0.1/", "https://user@example.com/", "https://[", "ftp://a/"],
)
def test_redirect_refused(location: str) -> None:
    """Each hop is judged like the first, and none loses its encryption."""
    with pytest.raises(VitascopeError) as caught:
        read_redirect(read_url("https://example.com/", RULES), location, RULES)

    assert FailureCode.ADDRESS_NOT_ALLOWED == caught.value.code


@given(st.text(max_size=60) | st.from_regex(r"https?://[0-9a-fx.:\[\]@%]{1,30}(/.*)?", fullmatch=True))
def test_any_text(url: str) -> None:
    """Understood or refused, never anything else; and what was understood is understood again in the same way."""
    try:
        target = read_url(url, RULES)
    except VitascopeError as error:
        assert FailureCode.ADDRESS_NOT_ALLOWED == error.code  # noqa: PT017 (it may be understood as well)
    else:
        assert target == read_url(target.url, RULES)
        assert target.url.isascii()
