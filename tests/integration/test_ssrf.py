"""Media from addresses that a stranger names: nothing inside is reached, by no trick; nothing is taken without bound.

A name server and two web servers of the test's own: one that may be reached, one that must not be.
"""

import base64
import datetime as dt
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fetching import read, refuse
from media_files import png, video
from strange_internet import INSIDE, OUTSIDE, Exchange, Internet, open_internet
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import ReferenceRole

CDN = "cdn.example"
NOT_ALLOWED, FETCH_FAILED = FailureCode.ADDRESS_NOT_ALLOWED, FailureCode.FETCH_FAILED


@pytest_asyncio.fixture
async def internet() -> AsyncIterator[Internet]:
    async with open_internet() as made:
        yield made


async def test_image(internet: Internet, tmp_path: Path) -> None:
    """Fetched, whatever the server calls it, under the name that was asked for."""
    internet.page("/a.png?b=c", png(), content_type="text/html")
    internet.name(CDN, [OUTSIDE])
    made = await read(internet, internet.url("/a.png?b=c", CDN), tmp_path)

    assert (ReferenceRole.IMAGE, 40, 20) == (made.role, made.width, made.height)
    assert f"{CDN}:{internet.port}" == internet.seen[0].headers["host"]
    assert "identity" == internet.seen[0].headers["accept-encoding"]


async def test_video(internet: Internet, tmp_path: Path) -> None:
    """Likewise."""
    made = await read(internet, internet.page("/v", video(tmp_path.parent / "v").read_bytes()), tmp_path)

    assert (ReferenceRole.VIDEO, 12) == (made.role, made.num_frames)


async def test_redirects_are_followed(internet: Internet, tmp_path: Path) -> None:
    """To other names and paths, relative or not."""
    internet.name(CDN, [OUTSIDE])
    internet.page("/a.png", png())
    internet.redirect("/2", "/a.png", 307)
    start = internet.redirect("/1", internet.url("/2", CDN))

    assert 40 == (await read(internet, start, tmp_path)).width
    assert ["/1", "/2", "/a.png"] == [exchange.path for exchange in internet.seen]


async def test_redirects_are_not_followed_where_they_are_off(internet: Internet, tmp_path: Path) -> None:
    """One switch for every kind of media."""
    internet.page("/a.png", png())
    start = internet.redirect("/1", "/a.png")
    for role in (ReferenceRole.IMAGE, ReferenceRole.VIDEO, ReferenceRole.AUDIO):
        assert NOT_ALLOWED == await refuse(internet, start, tmp_path, role=role, follow_redirects=False)


@pytest.mark.parametrize(
    "location",
    [
        pytest.param("http://{inside}:{port}/", id="private address"),
        pytest.param("http://private.example:{port}/", id="private name"),
        pytest.param("http://[::ffff:127.0.0.2]:{port}/", id="mapped"),
        pytest.param("http://[::1]:{port}/", id="loopback of IPv6"),
        pytest.param("http://2130706434:{port}/", id="decimal"),
        pytest.param("http://0x7f.0.0.2:{port}/", id="hexadecimal"),
        pytest.param("http://0177.0.0.2:{port}/", id="octal"),
        pytest.param("http://127.2:{port}/", id="short"),
        pytest.param("http://169.254.169.254/latest/meta-data/", id="metadata"),
        pytest.param("//{inside}:{port}/", id="without scheme"),
        pytest.param("file:///etc/passwd", id="file"),
        pytest.param("ftp://{inside}/", id="ftp"),
        pytest.param("gopher://{inside}:{port}/_GET", id="gopher"),
        pytest.param("data:image/png;base64,AA==", id="data"),
        pytest.param("http://user:word@{outside}:{port}/", id="password"),
    ],
)
async def test_redirect_to_where_nobody_may(location: str, internet: Internet, tmp_path: Path) -> None:
    """Each hop is judged like the first; so is the same place as a first hop."""
    internet.name("private.example", [INSIDE])
    target = location.format(inside=INSIDE, outside=OUTSIDE, port=internet.port)
    start = internet.redirect("/1", target)

    assert NOT_ALLOWED == await refuse(internet, start, tmp_path)
    assert ["/1"] == [exchange.path for exchange in internet.seen]
    if ":" in target.partition("//")[0] and not target.startswith("data:"):
        assert NOT_ALLOWED == await refuse(internet, target, tmp_path)


async def test_rebinding(internet: Internet, tmp_path: Path) -> None:
    """A name that is harmless when it is looked up first and private the second time: there is no second time."""
    internet.name("rebind.example", [OUTSIDE], [INSIDE])
    internet.page("/a.png", png())

    assert 40 == (await read(internet, internet.url("/a.png", "rebind.example"), tmp_path)).width
    assert (1, []) == (internet.names.asked["rebind.example"], internet.inside)


async def test_rebinding_between_hops(internet: Internet, tmp_path: Path) -> None:
    """The next hop is looked up anew, and judged anew."""
    internet.name("rebind.example", [OUTSIDE], [INSIDE])
    internet.redirect("/1", internet.url("/2", "rebind.example"))

    assert NOT_ALLOWED == await refuse(internet, internet.url("/1", "rebind.example"), tmp_path)


async def test_check_before_and_connection_after(internet: Internet) -> None:
    """An address that was right when it was checked is judged again when something is sent."""
    internet.name("rebind.example", [OUTSIDE], [INSIDE])
    async with internet.outbound() as outbound:
        await outbound.check_url(internet.url("/", "rebind.example"))
        with pytest.raises(VitascopeError) as caught:
            await outbound.post(internet.url("/", "rebind.example"), b"{}", {}, 5)
    assert (NOT_ALLOWED, []) == (caught.value.code, internet.inside)


@pytest.mark.parametrize("addresses", [[OUTSIDE, INSIDE], [INSIDE, OUTSIDE], [OUTSIDE, "169.254.169.254"]])
async def test_mixed_addresses(addresses: list[str], internet: Internet, tmp_path: Path) -> None:
    """One that is not public spoils the name."""
    internet.name("mixed.example", addresses)
    internet.page("/a.png", png())

    assert NOT_ALLOWED == await refuse(internet, internet.url("/a.png", "mixed.example"), tmp_path)


async def test_no_such_name(internet: Internet, tmp_path: Path) -> None:
    """Said as it is."""
    assert FETCH_FAILED == await refuse(internet, internet.url("/", "nowhere.example"), tmp_path)


async def test_loop(internet: Internet, tmp_path: Path) -> None:
    """Six hops, and no more."""
    assert FETCH_FAILED == await refuse(internet, internet.redirect("/1", "/1"), tmp_path)
    assert 6 == len(internet.seen)


@pytest.mark.parametrize("role", [ReferenceRole.VIDEO, ReferenceRole.AUDIO, None])
@pytest.mark.parametrize(
    "template",
    [
        pytest.param("#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{url}\n#EXT-X-ENDLIST\n", id="hls"),
        pytest.param("ffconcat version 1.0\nfile {url}\n", id="concat"),
        pytest.param(
            "#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:0\n#EXTINF:1,\nconcat:{url}|file:///etc/passwd\n", id="hls of concat"
        ),
        pytest.param("<MPD><Period><BaseURL>{url}</BaseURL></Period></MPD>", id="dash"),
        pytest.param("[playlist]\nFile1={url}\nNumberOfEntries=1\n", id="pls"),
        pytest.param("v=0\no=- 0 0 IN IP4 127.0.0.2\nc=IN IP4 127.0.0.2\nm=video 9 RTP/AVP 96\n", id="sdp"),
    ],
)
async def test_playlist_as_media(template: str, role: ReferenceRole | None, internet: Internet, tmp_path: Path) -> None:
    """A file that only points elsewhere is no media, and nobody goes where it points."""
    url = internet.page("/a.m3u8", template.format(url=internet.url("/inside", INSIDE)).encode())

    assert FailureCode.MEDIA_INVALID == await refuse(internet, url, tmp_path, role=role)


async def test_data_url_is_no_way_in(internet: Internet, tmp_path: Path) -> None:
    """A playlist in a data URL points nowhere, too."""
    text = base64.b64encode(f"#EXTM3U\n#EXTINF:9,\n{internet.url('/x', INSIDE)}\n".encode()).decode()

    assert FailureCode.MEDIA_INVALID == await refuse(
        internet, f"data:video/mp4;base64,{text}", tmp_path, role=ReferenceRole.VIDEO
    )


async def test_environment_proxy_is_not_used(
    internet: Internet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would resolve names on its own."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, internet.url("", INSIDE))
    assert 40 == (await read(internet, internet.page("/a", png()), tmp_path)).width
    assert [] == internet.inside


async def test_post_follows_nothing_and_reads_nothing(internet: Internet) -> None:
    """A receiver's answer is its status."""
    internet.redirect("/hook", internet.url("/", INSIDE), 307)

    async def flood(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 X\r\ncontent-length: 1000000000\r\n\r\n")
        while True:
            await exchange.send(b"a" * 0x4000)

    internet.pages["/flood"] = flood
    async with internet.outbound() as outbound:
        assert 307 == await outbound.post(internet.url("/hook"), b"{}", {"Webhook-Id": "e1"}, 5)
        assert 200 == await outbound.post(internet.url("/flood"), b"{}", {}, 5)
    assert ("POST", "e1") == (internet.seen[0].method, internet.seen[0].headers["webhook-id"])
    assert [] == internet.inside


async def test_ask_gives_the_body(internet: Internet) -> None:
    """Of a service's answer, and never more of it than is allowed."""
    url = internet.page("/ask", b'{"flagged": false}', 201)
    async with internet.outbound() as outbound:
        answer = await outbound.ask(url, b"{}", {}, timeout_s=5, max_bytes=100)
        assert (201, b'{"flagged": false}') == (answer.status, answer.body)
        with pytest.raises(VitascopeError) as caught:
            await outbound.ask(url, b"{}", {}, timeout_s=5, max_bytes=10)
    assert FailureCode.MEDIA_TOO_LARGE == caught.value.code


async def test_tls_is_for_the_name(tmp_path: Path) -> None:
    """The certificate is checked for the name that was asked for, though the connection goes to an address."""
    server, client = _make_contexts("media.example", tmp_path)
    async with open_internet(server) as internet:
        internet.name("media.example", [OUTSIDE])
        internet.name("other.example", [OUTSIDE])
        internet.page("/a", b"whole")
        async with internet.outbound(ssl_context=client) as outbound:
            into = tmp_path / "a"
            url = internet.url("/a", "media.example", "https")
            assert 5 == (await outbound.fetch(url, max_bytes=9, timeout_s=5, into=into)).bytes
            assert b"whole" == into.read_bytes()
            url = internet.url("/a", "other.example", "https")
            with pytest.raises(VitascopeError) as caught:
                await outbound.fetch(url, max_bytes=9, timeout_s=5, into=tmp_path / "b")
    assert FETCH_FAILED == caught.value.code


def _make_contexts(host: str, folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server with a certificate for the host, and a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(private + pem)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.pem")
    return server, ssl.create_default_context(cadata=pem.decode())
