"""The connection to an S3 server: blocking calls of the MinIO client, kept off the event loop."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import urlsplit

from minio import Minio
from minio.credentials.credentials import Credentials
from urllib3 import PoolManager, Retry, Timeout

from vitascope.adapters.s3.errors import translating

THREADS = 8
"""Calls at once; further ones wait. Two threads saturate a core with checksums, the rest wait for the network."""
READ_TIMEOUT_S = 60.0
"""The longest silence inside an answer: a server that joins many parts is quiet for a while."""
RETRIES = 3
BACKOFF_S = 0.3
RETRIED = (500, 502, 503, 504)

T = TypeVar("T")


class Stopped(Exception):
    """Raised inside a thread whose caller has been cancelled."""


class S3Client:
    """The clients, inside and public, of one bucket.

    Attributes:
        minio: for all calls; thread-safe.
        signer: makes URLs for the public endpoint; never calls anybody, since its region is given.
        bucket: the bucket's name.
        endpoint: the inside endpoint, for messages.
        http, credentials, region: what `minio` stands on, for the few calls that it has not.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        access_key: str,
        secret_key: str,
        bucket: str,
        region: str = "us-east-1",
        public_endpoint: str | None = None,
        connect_timeout_s: float = 10.0,
    ) -> None:
        """Prepare; nothing is connected yet.

        Raises:
            ValueError: an endpoint is no plain `http(s)://host[:port]`, or a key is missing.
        """
        pool = PoolManager(
            maxsize=THREADS,
            timeout=Timeout(connect=connect_timeout_s, read=READ_TIMEOUT_S),
            retries=Retry(
                total=RETRIES,
                backoff_factor=BACKOFF_S,
                status_forcelist=RETRIED,
                raise_on_status=False,  # the last answer says why
            ),
        )

        def make(setting: str, url: str) -> Minio:
            host, is_secure = parse_endpoint(setting, url)
            return Minio(
                host,
                access_key=access_key,
                secret_key=secret_key,
                secure=is_secure,
                region=region,
                http_client=pool,
            )

        self.bucket, self.endpoint, self.region = bucket, endpoint, region
        if not (access_key and secret_key):
            raise ValueError("VITASCOPE_S3__ACCESS_KEY and VITASCOPE_S3__SECRET_KEY must be set.")
        self.credentials = Credentials(access_key, secret_key)
        self.minio = make("VITASCOPE_S3__ENDPOINT", endpoint)
        self.signer = make("VITASCOPE_S3__PUBLIC_ENDPOINT", public_endpoint or endpoint)
        self.http = pool
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="s3")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Returns when the calls under way have ended; those that wait are given up."""
        await asyncio.to_thread(self._executor.shutdown, wait=True, cancel_futures=True)
        self.http.clear()

    async def run(self, key: str, call: Callable[[threading.Event], T]) -> T:
        """Make blocking calls in a thread; the event is set when the caller is cancelled, and long calls look at it.

        Raises:
            VitascopeError: `object_missing`, `object_corrupt`, `store_full` or `store_unavailable`.
        """
        stop = threading.Event()

        def translated() -> T:
            with translating(self.endpoint, key):
                return call(stop)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, translated)
        finally:
            stop.set()


def parse_endpoint(setting: str, url: str) -> tuple[str, bool]:
    """Host with port, and whether it is HTTPS.

    Raises:
        ValueError: not `http(s)://host[:port]`. A path is refused because S3 signs the path: behind a proxy that
            adds or removes a prefix no signature holds.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{setting} must be http://host[:port] or https://host[:port], not {url!r}")
    if parts.path not in {"", "/"} or parts.query or parts.fragment or parts.username:
        raise ValueError(f"{setting} must be only scheme, host and port: S3 signs the path, so a prefix cannot work")
    return parts.netloc, parts.scheme == "https"
