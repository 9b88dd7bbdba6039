"""Prometheus metrics of the janitor."""

from prometheus_client import Counter, Gauge

REMOVED = Counter("vitascope_janitor_removed_total", "What the janitor took away or ended, by kind.", ["kind"])
REMOVED_BYTES = Counter("vitascope_janitor_removed_bytes_total", "Room in the store that the janitor gave back.")
LAST_ROUND = Gauge("vitascope_janitor_last_success_timestamp_seconds", "When a round last did all that was to do.")
