"""What a model asks of its references: sides, proportions, length, rate; known once the media has been read."""

from collections.abc import Mapping, Sequence

from vitascope.admission.fields import refuse
from vitascope.admission.references import FIELD_OF_ROLE
from vitascope.contracts.jobs import Reference, ReferenceRole
from vitascope.contracts.models import MediaRule, ModelEntry

RATE_TOLERANCE = 0.01
"""Of a rate in frames a second: a file's length is rounded to its time base."""


def check_media(references: Sequence[Reference], entry: ModelEntry) -> None:
    """Refuse media that the model cannot use.

    Raises:
        VitascopeError: `invalid_request`, with what the media has and what the model takes.
    """
    rules: Mapping[ReferenceRole, MediaRule] = {
        ReferenceRole(kind): rule for kind, rule in entry.capabilities.media_rules.items()
    }
    for reference in references:
        rule = rules.get(reference.role)
        if rule is not None:
            _check_picture(reference, rule)
            _check_time(reference, rule)
    for role, rule in rules.items():
        total_s = sum(reference.duration_s or 0.0 for reference in references if reference.role is role)
        if rule.max_total_s is not None and total_s > rule.max_total_s:
            raise refuse(
                FIELD_OF_ROLE[role],
                f"All {role} references last {total_s:.3f} s; at most {rule.max_total_s:g} are taken.",
            )


def _check_picture(reference: Reference, rule: MediaRule) -> None:
    if reference.width is None or reference.height is None:
        return
    for side in (reference.width, reference.height):
        _check(reference, "a side of {:g} px", side, low=rule.min_side_px, high=rule.max_side_px)
    ratio = reference.width / reference.height
    _check(reference, "a ratio of {:.3f}", ratio, low=rule.min_ratio, high=rule.max_ratio)


def _check_time(reference: Reference, rule: MediaRule) -> None:
    if not reference.duration_s:
        return
    _check(reference, "a length of {:.3f} s", reference.duration_s, low=rule.min_s, high=rule.max_s)
    if reference.num_frames is not None:
        rate = reference.num_frames / reference.duration_s
        low = None if rule.min_fps is None else rule.min_fps - RATE_TOLERANCE
        high = None if rule.max_fps is None else rule.max_fps + RATE_TOLERANCE
        _check(reference, "{:.3f} frames a second", rate, low=low, high=high)


def _check(reference: Reference, words: str, value: float, *, low: float | None, high: float | None) -> None:
    if (low is None or low <= value) and (high is None or value <= high):
        return
    taken = " ".join(f"{word} {bound:g}" for word, bound in (("from", low), ("to", high)) if bound is not None)
    field = FIELD_OF_ROLE[reference.role]
    raise refuse(field, f"A reference of kind {reference.role} has {words.format(value)}; the model takes {taken}.")
