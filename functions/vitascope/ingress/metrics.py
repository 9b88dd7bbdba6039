"""Prometheus metrics of the door: requests by route, and the jobs and groups that the read models see."""

import time
from collections.abc import Iterable

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitascope.contracts.flow import State
from vitascope.ingress.groups import GroupIndex
from vitascope.runtime.job_index import JobIndex

SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""A submit takes some milliseconds; streams of video and events are in the last one."""
METRICS_TYPE = CONTENT_TYPE_LATEST


class IngressMetrics(Collector):
    """The metrics of one application, in a registry of its own."""

    def __init__(self, jobs: JobIndex, groups: GroupIndex) -> None:
        self._jobs, self._groups = jobs, groups
        self._registry = CollectorRegistry()
        self._registry.register(self)
        labels = ("method", "route", "status")
        self.requests = Counter("vitascope_http_requests", "Requests answered.", labels, registry=self._registry)
        self.seconds = Histogram(
            "vitascope_http_request_duration_seconds",
            "Time from the request's first byte to the answer's last.",
            ("method", "route"),
            buckets=SECONDS_BUCKETS,
            registry=self._registry,
        )

    def collect(self) -> Iterable[Metric]:
        """Gauges that are computed when they are asked for."""
        jobs = GaugeMetricFamily("vitascope_jobs", "Jobs in the ledger by state.", labels=["state"])
        for state in State:
            jobs.add_metric([state], self._jobs.count(state))
        groups = GaugeMetricFamily("vitascope_groups", "Live rows of the registry.", labels=["pool", "state"])
        rows = [(row.pool, row.state) for row in self._groups.list_alive()]
        for row in sorted(set(rows)):
            groups.add_metric(row, rows.count(row))
        return [jobs, groups]

    def render(self) -> bytes:
        """The door's metrics and those of the process, as Prometheus reads them."""
        return generate_latest(self._registry) + generate_latest(REGISTRY)


class MetricsMiddleware:
    """Counts and times every request under the route's pattern, so that ids make no new series."""

    def __init__(self, app: ASGIApp, metrics: IngressMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; what is answered is seen on its way out."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s, status = time.monotonic(), 500

        async def send_seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_seen)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.requests.labels(method, route, str(status)).inc()
            self._metrics.seconds.labels(method, route).observe(time.monotonic() - began_s)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
