"""Subjects, keys and ids: spelt once, and nothing foreign gets into them."""

import pytest
from pydantic import TypeAdapter, ValidationError

from records import NOW, queued_record
from vitascope.contracts import objects, subjects
from vitascope.contracts.flow import Stage
from vitascope.contracts.ids import Token, is_job_id, make_job_id


def test_work_subject_is_matched_by_its_filter() -> None:
    """A consumer's filter is the subject with the job left open."""
    subject = subjects.work_subject(Stage.DENOISE, "p", "vj_1", "g0")
    assert "vitascope.work.denoise.p.g0.vj_1" == subject
    assert subject.rsplit(".", 1)[0] + ".*" == subjects.work_filter(Stage.DENOISE, "p", "g0")


@pytest.mark.parametrize(
    ("stage", "group"), [(Stage.DENOISE, None), (Stage.DECODE, "g0")], ids=["group missing", "group too much"]
)
def test_only_denoise_names_a_group(stage: Stage, group: str | None) -> None:
    """Decode and encode go to any process of the pool."""
    with pytest.raises(ValueError, match="group"):
        subjects.work_subject(stage, "p", "vj_1", group)


def test_keys_stay_inside_their_job() -> None:
    """Every key of an attempt lies under its class, tenant, job and attempt."""
    record = queued_record()
    keys = [objects.latents_key(record, 2), objects.chunk_key(record, 2, 3), objects.output_key(record, 2)]
    assert [f"{c}/default/{record.id}/2" for c in ("latents", "frames", "outputs")] == [
        key.rsplit("/", 1)[0] for key in keys
    ]


def test_ids_sort_by_time() -> None:
    """Newer jobs come later."""
    early, late = make_job_id(NOW), make_job_id(NOW.replace(year=2027))
    assert is_job_id(early)
    assert early < late


@pytest.mark.parametrize("text", ["", "vj_", "../x", "vj_" + "0" * 25, "vj_" + "I" * 26, make_job_id(NOW) + "\n"])
def test_foreign_text_is_no_job_id(text: str) -> None:
    """What could leave its place in a key or subject is refused by shape."""
    assert not is_job_id(text)


@pytest.mark.parametrize("text", ["", "a.b", "*", ">", "a/b", "A", "a" * 41, "-a", "a-", "a b", "a\n"])
def test_tokens_hold_no_separator(text: str) -> None:
    """A tenant, pool or group is one subject token and one path segment."""
    with pytest.raises(ValidationError):
        TypeAdapter(Token).validate_python(text)
