"""Webhooks: public events become deliveries, and deliveries are tried until they arrive or there is no use in it.

Fed by the event stream alone, so a receiver that is slow, gone or hostile costs nobody else anything: no worker waits
for it, and no answer of it is read, let alone stored.
"""

from vitascope.publish.webhooks.service import WebhookDeps, WebhookService

__all__ = ["WebhookDeps", "WebhookService"]
