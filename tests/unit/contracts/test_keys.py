"""API keys and the tenant's document."""

from datetime import timedelta

import pytest

from records import NOW
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.keys import (
    ALL_SCOPES,
    JOB_SCOPES,
    SECRET_BYTES,
    VISIBLE_BYTES,
    ApiKey,
    compose_key,
    compute_key_digest,
    read_key_id,
)
from vitascope.contracts.tenants import (
    MAX_KEYS,
    TENANT_MAX_BYTES,
    Quotas,
    Rate,
    Tenant,
    add_key,
    find_key,
    revoke_key,
    rotate_key,
)

HOUR = timedelta(hours=1)


def make_key(number: int = 0, **changes: object) -> tuple[str, ApiKey]:
    """A key and what is kept of it."""
    text = compose_key(number.to_bytes(VISIBLE_BYTES), number.to_bytes(SECRET_BYTES))
    row = ApiKey(
        id=read_key_id(text), sha256=compute_key_digest(text), scopes=JOB_SCOPES, label=f"key {number}", created=NOW
    )
    return text, row.model_copy(update=changes)


def make_tenant(*keys: ApiKey) -> Tenant:
    return Tenant(name="acme", created=NOW, keys=keys)


def test_a_key_shows_its_kind_and_its_id() -> None:
    """It begins with what scanners of secrets look for, then eight characters that may be shown."""
    text, row = make_key(7)
    assert "vsk_aaaaaaah_" == text[:13]
    assert "vsk_aaaaaaah" == row.id
    assert 65 == len(text)


def test_different_secrets_make_different_keys() -> None:
    """Every drawn bit of the secret is in the key and in its digest."""
    visible = bytes(VISIBLE_BYTES)
    keys = {compose_key(visible, (1 << bit).to_bytes(SECRET_BYTES)) for bit in range(8 * SECRET_BYTES)}
    assert 8 * SECRET_BYTES == len({compute_key_digest(key) for key in keys})


def test_a_document_does_not_hold_the_key() -> None:
    """Whoever reads the bucket or the copy cannot act for the tenant."""
    text, row = make_key(7)
    assert text[13:].encode() not in make_tenant(row).to_bytes()


def test_a_document_comes_back_as_it_was() -> None:
    """Limits, keys, and a field of a newer release."""
    stored = make_tenant(make_key(1)[1]).model_copy(
        update={"quotas": Quotas(gpu_s_per_day=10, live_jobs=0), "rate": Rate(per_s=0.5, burst=3)}
    )
    newer = stored.to_bytes()[:-1] + b',"invented_later":1}'
    assert stored == Tenant.from_bytes(stored.to_bytes())
    assert b'"invented_later":1' in Tenant.from_bytes(newer).to_bytes()


@pytest.mark.parametrize(
    ("expires", "is_valid"),
    [
        pytest.param(None, True, id="never"),
        pytest.param(NOW + HOUR, True, id="later"),
        pytest.param(NOW, False, id="now"),
        pytest.param(NOW - HOUR, False, id="earlier"),
    ],
)
def test_a_key_is_valid_until_it_expires(expires: object, is_valid: object) -> None:
    """The moment of its end is no longer its own."""
    assert is_valid is make_key(1, expires=expires)[1].is_valid(NOW)


def test_a_rotated_key_goes_on_for_a_while() -> None:
    """Both keys are valid until the overlap is over."""
    old, fresh = make_key(1)[1], make_key(2)[1]
    rotated = rotate_key(make_tenant(old), old.id, fresh, until=NOW + HOUR)
    assert [NOW + HOUR, None] == [key.expires for key in rotated.keys]


def test_a_rotation_never_lengthens_a_life() -> None:
    """A key that was to end sooner still does."""
    old, fresh = make_key(1, expires=NOW + HOUR)[1], make_key(2)[1]
    rotated = rotate_key(make_tenant(old), old.id, fresh, until=NOW + 2 * HOUR)
    assert NOW + HOUR == find_key(rotated, old.id).expires


def test_a_revoked_key_is_gone() -> None:
    """The others stay."""
    rows = [make_key(number)[1] for number in range(3)]
    assert (rows[0], rows[2]) == revoke_key(make_tenant(*rows), rows[1].id).keys


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda tenant: revoke_key(tenant, "vsk_aaaaaaaa"), id="revoke"),
        pytest.param(lambda tenant: rotate_key(tenant, "vsk_aaaaaaaa", make_key(3)[1], until=NOW), id="rotate"),
    ],
)
def test_an_unknown_key_is_named_so(change: object) -> None:
    """Nothing else is changed in its place."""
    assert callable(change)
    with pytest.raises(VitascopeError) as caught:
        change(make_tenant(make_key(1)[1]))
    assert FailureCode.NOT_FOUND is caught.value.code


def test_keys_are_bounded_and_expired_ones_make_room() -> None:
    """The document stays small however often keys are rotated."""
    rows = [make_key(number, label="x" * 64, scopes=ALL_SCOPES)[1] for number in range(MAX_KEYS + 1)]
    full = make_tenant(*rows[:MAX_KEYS])
    assert TENANT_MAX_BYTES / 2 > len(full.to_bytes())
    with pytest.raises(VitascopeError):
        add_key(full, rows[MAX_KEYS])
    old = rows[0].model_copy(update={"expires": NOW})
    assert (*rows[1:MAX_KEYS], rows[MAX_KEYS]) == add_key(make_tenant(old, *rows[1:MAX_KEYS]), rows[MAX_KEYS]).keys


def test_a_document_that_is_too_large_is_refused() -> None:
    """As an error of whoever makes it so, before it is stored."""
    with pytest.raises(VitascopeError) as caught:
        Tenant(name="acme", created=NOW, keys=tuple(make_key(number)[1] for number in range(400))).to_bytes()
    assert FailureCode.INVALID_REQUEST is caught.value.code
