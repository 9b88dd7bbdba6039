"""Settings: read once, in wiring, from the environment; a bad value stops the process with its name.

Every setting is `VITASCOPE_<GROUP>__<NAME>`, for example `VITASCOPE_DENOISE__MIN_STEP_S=0.5`.
"""

from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from vitascope.contracts.encoding import MAX_CRF, MIN_CRF, Preset
from vitascope.contracts.expiry import Retention
from vitascope.contracts.ids import Token


def name_settings(error: ValidationError) -> str:
    """What is wrong with which variable, in one line."""
    problems = ((problem["loc"], problem["msg"]) for problem in error.errors())
    return "; ".join(f"VITASCOPE_{'__'.join(str(part).upper() for part in place)}: {text}" for place, text in problems)


class Group(BaseModel):
    """Settings that belong together."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NatsSettings(Group):
    """The NATS server."""

    url: str = Field("nats://127.0.0.1:4222", description="comma-separated for a cluster")
    user: str | None = None
    password: SecretStr | None = None
    replicas: int = Field(1, ge=1, le=5, description="of every stream and bucket; 3 in a cluster")
    connect_timeout_s: float = Field(10.0, gt=0, description="at start; later the client reconnects for ever")


class S3Settings(Group):
    """The object store."""

    endpoint: str = Field("http://127.0.0.1:8333", description="as the processes reach it")
    public_endpoint: str | None = Field(None, description="as clients reach it, for signed URLs; the same if absent")
    access_key: str = ""
    secret_key: SecretStr = SecretStr("")
    region: str = "us-east-1"
    bucket: str = Field("vitascope", min_length=3, max_length=63)
    connect_timeout_s: float = Field(10.0, gt=0)
    retention_days: float = Field(7.0, gt=0, description="from a job's end until it is expired and its files go")
    record_days: float = Field(30.0, gt=0, description="from there until its record is forgotten, too")

    @property
    def retention(self) -> Retention:
        """How long things are kept."""
        return Retention(files=timedelta(days=self.retention_days), record=timedelta(days=self.record_days))


class IngressSettings(Group):
    """The HTTP door."""

    host: str = "127.0.0.1"
    port: int = Field(8765, ge=0, le=65535)
    api_key: SecretStr | None = Field(None, description="when set, every /v1 request must carry it as a bearer token")
    max_body_bytes: int = Field(1024 * 1024, ge=1024)
    max_queued: int = Field(10_000, ge=1, description="queued jobs of all tenants; more are refused with 429")
    signed_url_s: int = Field(3600, ge=1, le=604_800, description="life of a signed URL; seven days is S3's own limit")


class DenoiseSettings(Group):
    """One denoise group."""

    pool: Token = "default"
    group: Token = "g0"
    host: str = "127.0.0.1"
    port: int = Field(0, ge=0, le=65535, description="of the KServe server; 0 takes a free one")
    models: tuple[str, ...] = Field((), description="names from the catalog to load; all of the pool if empty")
    device: str = Field("auto", description="a torch device; auto takes CUDA if there is one")
    threads: int | None = Field(None, ge=1, description="torch threads; torch's own choice if absent")
    checkpoint_every: int = Field(10, ge=1, description="steps between checkpoints")
    min_step_s: float = Field(0.0, ge=0, description="a step lasts at least so long: for trials that watch or cancel")
    grace_s: float = Field(30.0, gt=0, description="from SIGTERM to the end")


class DecodeSettings(Group):
    """One decode process."""

    pool: Token = "default"
    host: str = "127.0.0.1"
    port: int = Field(0, ge=0, le=65535)
    models: tuple[str, ...] = ()
    device: str = "auto"
    threads: int | None = Field(None, ge=1)
    tile_px: int | None = Field(None, ge=64, description="decode in tiles of that size; whole frames if absent")
    grace_s: float = Field(30.0, gt=0)


class EncodeSettings(Group):
    """One encode process."""

    pool: Token = "default"
    host: str = "127.0.0.1"
    port: int = Field(0, ge=0, le=65535)
    threads: int | None = Field(None, ge=1, description="x264 threads; 4 if absent, since the number changes the bytes")
    crf: int = Field(18, ge=MIN_CRF, le=MAX_CRF)
    preset: Preset = "medium"
    concurrency: int = Field(2, ge=1, le=64, description="clips that one process encodes at a time")
    scratch: Path | None = Field(None, description="folder for files in the making; the system's if absent")
    grace_s: float = Field(30.0, gt=0)


class SchedulerSettings(Group):
    """The dispatcher."""

    lease_s: float = Field(4.0, gt=0.2, description="a dead scheduler is replaced after so long")
    group_lease_s: float = Field(15.0, gt=1, description="a group that is silent for so long is lost")


class LogSettings(Group):
    """Logs go to stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "text"] = "json"


class MetricsSettings(Group):
    """Prometheus metrics of processes that have no HTTP face of their own."""

    host: str = "127.0.0.1"
    port: int | None = Field(None, ge=0, le=65535)


class Settings(BaseSettings):
    """Everything a process can be told."""

    model_config = SettingsConfigDict(env_prefix="VITASCOPE_", env_nested_delimiter="__", frozen=True, extra="ignore")

    catalog: Path | None = Field(None, description="JSON file that lists the models; the demo model if absent")
    cache: Path = Field(Path.home() / ".cache" / "vitascope", description="models that are fetched from elsewhere")
    nats: NatsSettings = NatsSettings()
    s3: S3Settings = S3Settings()
    ingress: IngressSettings = IngressSettings()
    denoise: DenoiseSettings = DenoiseSettings()
    decode: DecodeSettings = DecodeSettings()
    encode: EncodeSettings = EncodeSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
