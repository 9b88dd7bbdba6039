"""Fields of a request: exact types, bounds, two spellings, defaults, and refusals that name the field."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.admission import Admitted, admit, choose_model
from vitascope.admission.capabilities import CAPABILITY_FIELDS, FIELDS
from vitascope.admission.text import check_text
from vitascope.catalog.demo import make_demo_entry
from vitascope.contracts.failures import FailureCode, FailureKind, VitascopeError
from vitascope.contracts.jobs import RECORD_MAX_BYTES, Tier
from vitascope.contracts.models import ModelEntry

Admit = Callable[..., Admitted]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
INVALID, CAPABILITY = FailureCode.INVALID_REQUEST, FailureCode.CAPABILITY_MISSING

LACKED = set(CAPABILITY_FIELDS) - {"flow_shift"}
"""The demo model's sampler has a shift."""
SWITCHED_ON = {"generate_sound": True, "enable_frame_interpolation": True}
REFUSED = [
    # seeds
    ("seed-2-63", {"seed": 2**63}, INVALID, "seed"),
    ("seed-below", {"seed": -(2**63) - 1}, INVALID, "seed"),
    ("seed-float", {"seed": 1.5}, INVALID, "seed"),
    ("seed-whole-float", {"seed": 7.0}, INVALID, "seed"),
    ("seed-string", {"seed": "7"}, INVALID, "seed"),
    ("seed-true", {"seed": True}, INVALID, "seed"),
    ("seed-list", {"seed": [7]}, INVALID, "seed"),
    # steps
    ("steps-huge", {"steps": 10**9}, INVALID, "steps"),
    ("steps-nought", {"steps": 0}, INVALID, "steps"),
    ("steps-negative", {"steps": -3}, INVALID, "steps"),
    ("steps-true", {"steps": True}, INVALID, "steps"),
    ("steps-string", {"steps": "7"}, INVALID, "steps"),
    ("steps-float", {"steps": 7.5}, INVALID, "steps"),
    ("steps-above", {"num_inference_steps": 201}, INVALID, "num_inference_steps"),
    ("steps-differ", {"steps": 7, "num_inference_steps": 8}, INVALID, "num_inference_steps"),
    ("steps-differ-in-type", {"steps": 1, "num_inference_steps": True}, INVALID, "num_inference_steps"),
    # guidance
    ("guidance-negative", {"guidance": -0.5}, INVALID, "guidance"),
    ("guidance-above", {"guidance": 20.5}, INVALID, "guidance"),
    ("guidance-infinite", {"guidance": float("inf")}, INVALID, "guidance"),
    ("guidance-huge-int", {"guidance": 10**400}, INVALID, "guidance"),
    ("guidance-string", {"guidance_scale": "4"}, INVALID, "guidance_scale"),
    ("guidance-true", {"guidance": True}, INVALID, "guidance"),
    ("guidance-2", {"guidance_scale_2": 3.0}, CAPABILITY, "guidance_scale_2"),
    # prompts
    ("prompt-empty", {"prompt": ""}, INVALID, "prompt"),
    ("prompt-blank", {"prompt": " \n\t "}, INVALID, "prompt"),
    ("prompt-null", {"prompt": None}, INVALID, "prompt"),
    ("prompt-number", {"prompt": 5}, INVALID, "prompt"),
    ("prompt-list", {"prompt": ["a"]}, INVALID, "prompt"),
    ("prompt-long", {"prompt": "x" * 4097}, INVALID, "prompt"),
    ("prompt-long-in-bytes", {"prompt": "é" * 2049}, INVALID, "prompt"),
    ("prompt-2-mb", {"prompt": "x" * 2_000_000}, INVALID, "prompt"),
    ("prompt-nul", {"prompt": "a\0b"}, INVALID, "prompt"),
    ("prompt-escape", {"prompt": "a\x1b[31mb"}, INVALID, "prompt"),
    ("prompt-carriage-return", {"prompt": "a\r\nb"}, INVALID, "prompt"),
    ("prompt-c1", {"prompt": "a\x85b"}, INVALID, "prompt"),
    ("prompt-surrogate", {"prompt": "a\ud800b"}, INVALID, "prompt"),
    ("prompt-too-large-as-json", {"prompt": '"' * 4000}, INVALID, "prompt"),
    ("negative-long", {"negative_prompt": "x" * 1025}, INVALID, "negative_prompt"),
    ("negative-nul", {"negative_prompt": "\0"}, INVALID, "negative_prompt"),
    ("negative-number", {"negative_prompt": 1}, INVALID, "negative_prompt"),
    # the rest
    ("tier-unknown", {"tier": "urgent"}, INVALID, "tier"),
    ("tier-number", {"tier": 1}, INVALID, "tier"),
    ("model-number", {"model": 1}, INVALID, "model"),
    ("sound", {"generate_sound": True}, CAPABILITY, "generate_sound"),
    ("sound-string", {"generate_sound": "false"}, INVALID, "generate_sound"),
    ("sound-number", {"generate_sound": 0}, INVALID, "generate_sound"),
    ("deadline-past", {"start_deadline": "2026-01-02T03:04:05Z"}, INVALID, "start_deadline"),
    ("deadline-year-one", {"start_deadline": "0001-01-01T00:00:00+23:59"}, INVALID, "start_deadline"),
    ("deadline-year-9999", {"start_deadline": "9999-12-31T23:59:59-23:59"}, INVALID, "start_deadline"),
    ("deadline-no-zone", {"start_deadline": "2026-01-03T03:04:05"}, INVALID, "start_deadline"),
    ("deadline-no-day", {"start_deadline": "2026-02-30T03:04:05Z"}, INVALID, "start_deadline"),
    ("deadline-word", {"start_deadline": "soon"}, INVALID, "start_deadline"),
    ("deadline-nought", {"start_deadline": 0}, INVALID, "start_deadline"),
    ("deadline-far", {"start_deadline": 1e9}, INVALID, "start_deadline"),
    ("deadline-true", {"start_deadline": True}, INVALID, "start_deadline"),
    ("labels-list", {"labels": []}, INVALID, "labels"),
    ("labels-many", {"labels": {str(i): "" for i in range(17)}}, INVALID, "labels"),
    ("labels-name", {"labels": {"a b": "c"}}, INVALID, "labels"),
    ("labels-name-line-feed", {"labels": {"a\n": "c"}}, INVALID, "labels"),
    ("labels-value", {"labels": {"a": 1}}, INVALID, "labels"),
    ("labels-long", {"labels": {"a": "x" * 129}}, INVALID, "labels"),
    ("labels-control", {"labels": {"a": "\x07"}}, INVALID, "labels"),
    ("codec-string", {"video_codec_options": "crf=1"}, INVALID, "video_codec_options"),
    ("codec-unknown", {"video_codec_options": {"x264-params": "a"}}, FailureCode.UNKNOWN_FIELD, "video_codec_options"),
    ("codec-crf-lossless", {"video_codec_options": {"crf": 0}}, INVALID, "video_codec_options"),
    ("codec-crf", {"video_codec_options": {"crf": 52}}, INVALID, "video_codec_options"),
    ("codec-crf-true", {"video_codec_options": {"crf": True}}, INVALID, "video_codec_options"),
    ("codec-crf-text", {"video_codec_options": {"crf": "1e1"}}, INVALID, "video_codec_options"),
    ("codec-preset", {"video_codec_options": {"preset": "placebo"}}, INVALID, "video_codec_options"),
    ("unknown", {"promt": "x"}, FailureCode.UNKNOWN_FIELD, "promt"),
    ("unknown-null", {"promt": None}, FailureCode.UNKNOWN_FIELD, "promt"),
    ("unknown-surrogate", {"\ud800": 1}, FailureCode.UNKNOWN_FIELD, None),
    ("unknown-long", {"x" * 5000: 1}, FailureCode.UNKNOWN_FIELD, None),
    *((f"lacks-{name}", {name: SWITCHED_ON.get(name, {})}, CAPABILITY, name) for name in sorted(LACKED)),
]


@pytest.mark.parametrize(("body", "code", "param"), [pytest.param(*rest, id=name) for name, *rest in REFUSED])
def test_refused_by_the_fields_name(admit_body: Admit, body: dict[str, Any], code: FailureCode, param: str) -> None:
    """The field at fault is named as the client wrote it; the words are short and can be encoded."""
    with pytest.raises(VitascopeError) as caught:
        admit_body(**body) if "model" not in body else choose_model(body, [make_demo_entry()])
    assert (code, param) == (caught.value.code, caught.value.param)
    assert FailureKind.REFUSED is caught.value.kind
    assert len(str(caught.value).encode()) < 600
    assert "\n" not in str(caught.value)


def test_what_is_left_out_is_the_models_default(admit_body: Admit) -> None:
    """Every value of the frozen request is filled in, the seed from the draw."""
    request = admit_body().request
    assert (64, 64, 17, 8, 24, 4.0, 41) == (
        request.width,
        request.height,
        request.num_frames,
        request.fps,
        request.num_inference_steps,
        request.guidance_scale,
        request.seed,
    )
    assert ("tiny-wan", Tier.STANDARD, "", {}) == (
        request.model,
        request.tier,
        request.negative_prompt,
        request.labels,
    )


@pytest.mark.parametrize(
    ("body", "field", "value"),
    [
        pytest.param({"seed": 0}, "seed", 0, id="seed-nought"),
        pytest.param({"seed": 2**63 - 1}, "seed", 2**63 - 1, id="seed-highest"),
        pytest.param({"seed": -(2**63)}, "seed", -(2**63), id="seed-lowest"),
        pytest.param({"seed": None}, "seed", 41, id="seed-null"),
        pytest.param({"steps": 1}, "num_inference_steps", 1, id="steps-lowest"),
        pytest.param({"num_inference_steps": 200}, "num_inference_steps", 200, id="steps-highest"),
        pytest.param({"steps": 9, "num_inference_steps": 9}, "num_inference_steps", 9, id="two-that-agree"),
        pytest.param({"guidance": 0}, "guidance_scale", 0.0, id="guidance-nought"),
        pytest.param({"guidance_scale": 20}, "guidance_scale", 20.0, id="guidance-highest"),
        pytest.param({"prompt": "красный круг 🔴 \u202ertl"}, "prompt", "красный круг 🔴 \u202ertl", id="unicode"),
        pytest.param({"prompt": " a\n\tb "}, "prompt", " a\n\tb ", id="white-space-kept"),
        pytest.param({"prompt": "x" * 4096}, "prompt", "x" * 4096, id="prompt-longest"),
        pytest.param({"tier": "batch"}, "tier", Tier.BATCH, id="tier"),
        pytest.param({"generate_sound": False}, "generate_sound", False, id="no-sound"),
        pytest.param({"labels": {"a/b": "é"}}, "labels", {"a/b": "é"}, id="labels"),
        pytest.param(
            {"video_codec_options": {"crf": 20, "preset": "slow"}},
            "video_codec_options",
            {"crf": "20", "preset": "slow"},
            id="codec",
        ),
        pytest.param({"video_codec_options": {"crf": "07"}}, "video_codec_options", {"crf": "7"}, id="codec-text"),
        pytest.param({"lora": None}, "lora", None, id="null-is-absent"),
    ],
)
def test_taken_as_sent(admit_body: Admit, body: dict[str, Any], field: str, value: object) -> None:
    """The bounds themselves are inside, and both spellings work."""
    assert value == getattr(admit_body(**body).request, field)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        pytest.param(90, 90, id="seconds"),
        pytest.param(0.5, 0.5, id="half"),
        pytest.param("2026-01-02T03:05:05Z", 60, id="utc"),
        pytest.param("2026-01-02t05:05:05.5+02:00", 60.5, id="zone"),
    ],
)
def test_a_start_deadline_counts_from_acceptance(admit_body: Admit, value: object, seconds: float) -> None:
    """Seconds and times of day mean the same moment."""
    assert NOW + timedelta(seconds=seconds) == admit_body(start_deadline=value).start_deadline


def test_a_model_that_can_is_not_refused(admit_body: Admit) -> None:
    """Sound and a second guidance are the model's to offer."""
    entry = make_demo_entry().model_copy(update={"has_sound": True, "has_second_guidance": True})
    request = admit_body(entry, generate_sound=True, guidance_scale_2=3).request
    assert (True, 3.0) == (request.generate_sound, request.guidance_scale_2)


def test_an_unknown_field_gets_a_hint(admit_body: Admit) -> None:
    """A slip of the pen is seen."""
    with pytest.raises(VitascopeError, match="Did you mean negative_prompt"):
        admit_body(negative_promt="x")


def test_models_are_chosen_by_name() -> None:
    """The first if none is named; an unknown one is refused with the names that there are."""
    first, second = make_demo_entry(), make_demo_entry().model_copy(update={"name": "other"})
    assert first is choose_model({}, [first, second])
    assert second is choose_model({"model": "other"}, [first, second])
    with pytest.raises(VitascopeError, match='tiny-wan, other, not "no\\\\ud800ne"') as caught:
        choose_model({"model": "no\ud800ne"}, [first, second])
    assert (FailureCode.MODEL_NOT_FOUND, "model") == (caught.value.code, caught.value.param)


@given(
    prompt=st.text(st.characters(codec="utf-8"), min_size=1, max_size=1400),
    negative=st.text(st.characters(codec="utf-8"), max_size=400),
    labels=st.dictionaries(st.from_regex(r"[a-z]{1,20}", fullmatch=True), st.text(max_size=40), max_size=16),
)
def test_what_is_admitted_fits_into_a_record(prompt: str, negative: str, labels: dict[str, str]) -> None:
    """Whatever the text, it is refused by name or leaves room for the job's life in the record."""
    body = {"prompt": prompt, "negative_prompt": negative, "labels": labels}
    try:
        admitted = admit(body, make_demo_entry(), tenant="default", now=NOW, drawn_seed=1, idempotency_key="k" * 255)
    except VitascopeError as error:
        assert error.param in {"prompt", "negative_prompt", "labels"}  # noqa: PT017 (most examples are admitted)
        return
    stored = admitted.request.model_dump_json() + admitted.admission.model_dump_json()
    assert len(stored.encode()) < RECORD_MAX_BYTES * 3 // 4 + 300


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=5), st.integers(), max_size=2)
)


@given(st.dictionaries(st.sampled_from(sorted(FIELDS)) | st.text(max_size=5), VALUES))
def test_no_body_makes_anything_but_a_job_or_a_refusal(body: dict[str, Any]) -> None:
    """Never another exception, and a refusal can always be sent as JSON."""
    entry: ModelEntry = make_demo_entry()
    try:
        admit(body, choose_model(body, [entry]), tenant="default", now=NOW, drawn_seed=1)
    except VitascopeError as error:
        assert FailureKind.REFUSED is error.kind  # noqa: PT017 (both ways are right)
        json.dumps({"message": str(error), "param": error.param}, ensure_ascii=False).encode()


def test_line_feed_and_tab_are_text() -> None:
    """And nothing else below the blank is."""
    assert "a\n\tb" == check_text("prompt", "a\n\tb", 10)
