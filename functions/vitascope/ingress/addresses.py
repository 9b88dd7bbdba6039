"""Addresses that clients name for events: whether anything may be posted there."""

from typing import Protocol

from vitascope.admission.callback import FIELD
from vitascope.contracts.failures import VitascopeError


class AddressCheck(Protocol):
    """Knows the rules for what is posted to strangers: `outbound.Outbound`."""

    async def check_url(self, url: str) -> None:
        """Raises `address_not_allowed`, or `fetch_failed` if its name cannot be looked up."""
        ...


async def check_callback(addresses: AddressCheck, url: str | None) -> None:
    """Whether a job may have that `callback_url`. It is checked again at each try to post.

    Raises:
        VitascopeError: as `AddressCheck.check_url`, naming the field.
    """
    if url is None:
        return
    try:
        await addresses.check_url(url)
    except VitascopeError as error:
        raise VitascopeError(error.code, error.detail, param=FIELD) from error
