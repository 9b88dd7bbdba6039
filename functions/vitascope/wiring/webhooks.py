"""The way out of webhooks: the same rules where an address is taken and where it is posted to."""

from vitascope.outbound import AddressRules, Outbound
from vitascope.runtime.settings import WebhookSettings

__all__ = ["Outbound", "make_webhook_rules"]


def make_webhook_rules(settings: WebhookSettings) -> AddressRules:
    """What the settings let through; a redirect of a receiver is a failure."""
    return AddressRules(allow_http=settings.allow_http, follow_redirects=False, allowed=tuple(settings.allow_networks))
