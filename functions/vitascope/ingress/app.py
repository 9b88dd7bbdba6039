"""The application: routers, error handlers, middleware, and the followers that live as long as it does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI

from vitascope import __version__
from vitascope.ingress import (
    content,
    deliveries,
    estimates,
    events,
    health,
    jobs,
    listing,
    offers,
    params,
    preempt,
    removal,
    retry,
    submit,
    tenant_events,
    tenants,
    webhooks,
)
from vitascope.ingress.caller import check_caller
from vitascope.ingress.cors import add_cors
from vitascope.ingress.door import IngressDeps, make_door
from vitascope.ingress.errors import install_error_handlers
from vitascope.ingress.headers import HeadersMiddleware
from vitascope.ingress.metrics import MetricsMiddleware
from vitascope.ingress.openapi import DescribedApi
from vitascope.ingress.videos import VIDEO_ROUTERS

_DESCRIPTION = "Videos from text, as durable jobs. Every error has the shape `ErrorView`."


def create_app(deps: IngressDeps) -> FastAPI:
    """The HTTP door over the given ports. Its read models start with the application and end with it."""
    door = make_door(deps)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with door.followers.following(
            {
                "jobs": door.jobs.run(deps.ledger),
                "groups": door.groups.run(deps.registry),
                "progress": door.progress.run(deps.bus),
                "tenants": door.tenants.run(),
            },
        ):
            yield

    app = DescribedApi(
        title="vitascope",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,  # the pages of FastAPI load their scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.door = door
    install_error_handlers(app)
    app.add_middleware(HeadersMiddleware)
    app.add_middleware(MetricsMiddleware, metrics=door.metrics)
    add_cors(app, deps.settings)
    guard = [Depends(check_caller)]
    for part in (
        submit,
        listing,
        jobs,
        removal,
        retry,
        preempt,
        content,
        events,
        tenant_events,
        params,
        estimates,
        offers,
        tenants,
        webhooks,
        deliveries,
    ):
        app.include_router(part.router, dependencies=guard)
    for router in VIDEO_ROUTERS:
        app.include_router(router, dependencies=guard)
    app.include_router(health.router)
    return app
