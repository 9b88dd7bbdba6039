"""Reading keys, subjects and ids back: what was spelt is understood, and nothing else is."""

from datetime import timedelta

import pytest

from records import NOW, queued_record
from vitascope.contracts import objects
from vitascope.contracts.flow import Stage
from vitascope.contracts.ids import make_job_id, read_job_time
from vitascope.contracts.objects import ObjectClass, ObjectPlace, read_place
from vitascope.contracts.subjects import WorkPlace, read_work_subject, work_subject

JOB = make_job_id(NOW)


def test_a_key_says_class_job_and_attempt() -> None:
    """For each class; inputs and copies have no attempt."""
    record = queued_record()
    keys = [objects.checkpoint_key(record, 3, 7), objects.output_key(record, 12), objects.record_key(record)]
    keys.append(f"{objects.job_prefix(ObjectClass.INPUTS, record)}12.png")
    kinds = [ObjectClass.CHECKPOINTS, ObjectClass.OUTPUTS, ObjectClass.RECORDS, ObjectClass.INPUTS]
    expected = [ObjectPlace(k, "default", record.id, a) for k, a in zip(kinds, (3, 12, None, None), strict=True)]
    places = [read_place(key) for key in keys]
    assert expected == places
    assert {objects.record_keys(record)} == {place.record_keys for place in places if place}
    assert objects.record_key(record) == objects.record_keys(record)[1]


@pytest.mark.parametrize(
    "key",
    [
        "", "state/probe", f"models/default/{JOB}/1/x", "outputs/default/readme.txt", f"outputs/default/{JOB}",
        f"outputs/default/{JOB}/", f"outputs//{JOB}/1/x", "outputs/default/vj_1/1/x", f"outputs/{JOB}/1/x",
    ],
)  # fmt: skip
def test_a_foreign_key_says_nothing(key: str) -> None:
    """Whatever else lies in the bucket is nobody's to judge."""
    assert read_place(key) is None


@pytest.mark.parametrize(("stage", "group"), [(Stage.DENOISE, "g0"), (Stage.DECODE, None), (Stage.ENCODE, None)])
def test_a_work_subject_says_what_it_was_made_of(stage: Stage, group: str | None) -> None:
    """For every stage."""
    assert WorkPlace(stage, "p", group, JOB) == read_work_subject(work_subject(stage, "p", JOB, group))


@pytest.mark.parametrize(
    "subject",
    [
        "", "a.b", f"vitascope.work.denoise.p.{JOB}", f"vitascope.work.decode.p.g0.{JOB}",
        f"vitascope.work.paint.p.{JOB}", "vitascope.work.decode.p.vj_1", f"vitascope.dead.decode.p.{JOB}",
    ],
)  # fmt: skip
def test_a_foreign_subject_says_nothing(subject: str) -> None:
    """Another stage, form, stream or job."""
    assert read_work_subject(subject) is None


def test_an_id_says_when_it_was_made() -> None:
    """To the millisecond; one of no time that there is, is refused."""
    assert abs(read_job_time(JOB) - NOW) < timedelta(milliseconds=1)
    with pytest.raises(ValueError, match=r"."):
        read_job_time("vj_" + "Z" * 26)
