"""The numbers that every adapter of a port keeps to."""

ACK_WAIT_S = 30.0
"""A delivery without a beat for so long goes to somebody else. Beats are meant to come every 10 s."""
RETRY_MAX_S = 30.0
"""The longest delay of a retry: a delayed message holds a slot of its consumer. Longer waits are the record's."""
DEDUPE_WINDOW_S = 600.0
"""How long the id of a work or public event is remembered, acknowledged or not: it covers publishing again."""
REMEMBER_S = 7 * 86_400.0
"""How long an idempotency key is remembered at least: a week, longer than any job lives."""
PIECE_BYTES = 1024 * 1024
"""The largest piece of a streamed object."""
SIGN_MAX_S = 604_800
"""S3 refuses to sign for longer: seven days."""
