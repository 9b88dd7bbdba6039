"""Prometheus metrics of the deliveries."""

from prometheus_client import Counter, Gauge, Histogram

TRIES = Counter("vitascope_webhook_tries_total", "Tries to deliver, by what came of them.", ["outcome"])
TRY_S = Histogram("vitascope_webhook_try_seconds", "How long receivers take to answer.", buckets=(0.05, 0.2, 1, 3, 10))
ENDED = Counter("vitascope_webhook_deliveries_total", "Deliveries that have ended, by state.", ["state"])
PENDING = Gauge("vitascope_webhook_pending", "Deliveries that wait for a try.")
DISABLED = Counter("vitascope_webhook_disabled_total", "Webhooks that were switched off because nothing arrived.")
