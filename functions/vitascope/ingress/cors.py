"""Cross-origin requests (CORS): which web pages may call the API from a browser. None, unless the settings say so."""

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from vitascope.runtime.settings import IngressSettings

ALLOWED_HEADERS = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "Last-Event-ID",
    "Range",
    "If-None-Match",
    "If-Range",
)
EXPOSED_HEADERS = (
    "Accept-Ranges", "Content-Disposition", "Content-Length", "Content-Range", "ETag", "Idempotency-Replayed",
    "Location", "Retry-After", "X-Request-Id", "openai-poll-after-ms",
)  # fmt: skip
PREFLIGHT_MAX_AGE_S = 600


def add_cors(app: FastAPI, settings: IngressSettings) -> None:
    """Let pages of the named origins call the API. Keys travel in a header, so cookies are never allowed."""
    if not settings.cors_origins:
        return
    app.add_middleware(
        CORSMiddleware,
        allow_origins=list(settings.cors_origins),
        allow_credentials=False,
        allow_methods=["GET", "HEAD", "POST", "PATCH", "DELETE"],
        allow_headers=list(ALLOWED_HEADERS),
        expose_headers=list(EXPOSED_HEADERS),
        max_age=PREFLIGHT_MAX_AGE_S,
    )
