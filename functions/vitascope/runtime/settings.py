"""Settings: read once, in wiring, from the environment; a bad value stops the process with its name.

Every setting is `VITASCOPE_<GROUP>__<NAME>`, for example `VITASCOPE_DENOISE__MIN_STEP_S=0.5`.
"""

from datetime import timedelta
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork, SecretStr, ValidationError, model_validator
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


class JwtSettings(Group):
    """An identity provider whose signed tokens are taken as well as keys; exactly one place of its keys is named."""

    issuer: str = Field(min_length=1, description="as the tokens name it, `iss`")
    audience: str = Field(min_length=1, description="as the tokens name this service, `aud`")
    jwks_url: str | None = Field(None, pattern=r"^https?://", description="where the provider publishes its keys")
    jwks_file: Path | None = Field(None, description="the same document as a file; read again when it changes")
    tenant_claim: str = Field("tenant", description="the claim that has the tenant's name")
    scope_claim: str = Field("scope", description="the claim that has the scopes; jobs:read and jobs:write if absent")
    leeway_s: float = Field(30.0, ge=0, le=300, description="so far clocks may differ")

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        if (self.jwks_url is None) == (self.jwks_file is None):
            raise ValueError("set either JWKS_URL or JWKS_FILE")
        return self


class IngressSettings(Group):
    """The HTTP door."""

    host: str = "127.0.0.1"
    port: int = Field(8765, ge=0, le=65535)
    api_key: SecretStr | None = Field(
        None, min_length=1, description="of the tenant `default`, with every scope; see docs/api.md"
    )
    jwt: JwtSettings | None = Field(None, description="an identity provider whose tokens are taken, too")
    cors_origins: tuple[str, ...] = Field((), description='web pages that may call the API: ["https://example.com"]')
    max_body_bytes: int = Field(1024 * 1024, ge=1024)
    max_queued: int = Field(10_000, ge=1, description="queued jobs of all tenants; more are refused with 429")
    signed_url_s: int = Field(3600, ge=1, le=604_800, description="life of a signed URL; seven days is S3's own limit")
    content: Literal["stream", "redirect"] = Field("stream", description="how files reach clients: or by signed URL")
    sync_timeout_s: float = Field(600.0, gt=0, description="of POST /v1/videos/sync, waiting in the queue included")
    max_syncs: int = Field(256, ge=1, description="such requests that one replica has open at a time")
    max_inline_bytes: int = Field(64 * 1024 * 1024, ge=1024, description="of JSON that may hold a data URL of media")
    max_parts: int = Field(1000, ge=1, description="of a form")
    upload_room_bytes: int = Field(8 * 1024**3, ge=1024, description="of uploads on one replica's disk at a time")


class ReferencesSettings(Group):
    """Media that requests start from, uploaded or fetched from where a request says."""

    max_bytes: int = Field(512 * 1024 * 1024, ge=1024, description="of one upload, fetched file or data URL")
    max_pixels: int = Field(64 * 1024 * 1024, ge=1, description="of an image or one frame")
    max_frames: int = Field(1024, ge=1, description="of a video")
    max_duration_s: float = Field(300.0, gt=0, description="of a video or of sound")
    allow_http: bool = Field(default=True, description="fetch over plain http, too")
    follow_redirects: bool = Field(default=True, description="of every kind of media; each hop is checked")
    allow_networks: tuple[IPvAnyNetwork, ...] = Field((), description="networks to fetch from though they are private")
    fetch_timeout_s: float = Field(60.0, gt=0, description="for one file, every redirect included")
    read_timeout_s: float = Field(60.0, gt=0, description="to decode one file")
    read_memory_bytes: int = Field(2 * 1024**3, ge=512 * 1024**2, description="for the process that decodes one file")
    fetches: int = Field(32, ge=1, le=1000, description="files that one replica fetches at a time")
    concurrency: int = Field(4, ge=1, le=64, description="files that one replica decodes at a time")
    scratch: Path | None = Field(None, description="folder for files on their way; the system's if absent")


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


class ScreenSettings(Group):
    """What is looked at before there is a job, and before its video can be seen; nothing unless it is set."""

    prompt_rules: str | None = Field(None, min_length=1, description="a JSON file of rules for prompts, or `builtin`")
    prompt_hook: bool = Field(False, description="ask the hook about prompts")
    still_model: bool = Field(False, description="score frames of finished clips with the model of the extra `screen`")
    still_hook: bool = Field(False, description="ask the hook about frames of finished clips")
    stills: int = Field(16, ge=1, le=256, description="frames of a clip that are looked at, spread evenly")
    still_threshold: float = Field(0.8, gt=0, le=1, description="score from which the model's finding counts")
    fail_open: bool = Field(False, description="pass what a screen cannot tell; else nothing passes until it can")
    hook_url: str | None = Field(None, description="answers as OpenAI's /v1/moderations does")
    hook_key: SecretStr | None = Field(None, description="sent to the hook as a bearer token")
    hook_model: str | None = Field(None, description="sent to the hook as `model`")
    hook_timeout_s: float = Field(10.0, gt=0, le=60, description="for each answer of the hook")
    hook_allow_networks: tuple[IPvAnyNetwork, ...] = Field(
        (), description="private networks that the hook may be in; with any, plain http may be used, too"
    )

    @model_validator(mode="after")
    def _check_hook(self) -> Self:
        if (self.prompt_hook or self.still_hook) and self.hook_url is None:
            raise ValueError("prompt_hook and still_hook need hook_url")
        if self.hook_url is not None and not self.hook_url.startswith(("https://", "http://")):
            raise ValueError("hook_url begins with https:// or http://")
        if self.hook_url is not None and self.hook_url.startswith("http://") and not self.hook_allow_networks:
            raise ValueError("plain http needs hook_allow_networks, the networks that the hook may be in")
        return self


class SchedulerSettings(Group):
    """The dispatcher."""

    lease_s: float = Field(4.0, gt=0.2, description="a dead scheduler is replaced after so long")
    group_lease_s: float = Field(15.0, gt=1, description="a group that is silent for so long is lost")


class WebhookSettings(Group):
    """Deliveries to other people's addresses."""

    give_up_days: float = Field(3.0, gt=0, le=30, description="from an event until nobody tries to deliver it any more")
    allow_http: bool = Field(default=True, description="post over plain http, too")
    allow_networks: tuple[IPvAnyNetwork, ...] = Field((), description="networks to post to though they are private")
    disable_after_days: float = Field(5.0, gt=0, description="a webhook at which nothing arrives is switched off then")


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
    references: ReferencesSettings = ReferencesSettings()
    denoise: DenoiseSettings = DenoiseSettings()
    decode: DecodeSettings = DecodeSettings()
    encode: EncodeSettings = EncodeSettings()
    screen: ScreenSettings = ScreenSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    webhooks: WebhookSettings = WebhookSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
