"""Abilities beyond media: extras, LoRA, interpolation, sound, numbers, callbacks."""

from collections.abc import Callable
from typing import Any

import pytest

from able import make_able
from vitascope.admission import Admitted
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import FrameInterpolation, Lora
from vitascope.contracts.models import Extra, ModelEntry

Admit = Callable[..., Admitted]
INVALID, CAPABILITY, UNKNOWN = (
    FailureCode.INVALID_REQUEST,
    FailureCode.CAPABILITY_MISSING,
    FailureCode.UNKNOWN_FIELD,
)
EXTRAS = {
    "strength": Extra(type="number", minimum=0, maximum=1),
    "free": Extra(type="number"),
    "count": Extra(type="integer", minimum=1, maximum=3),
    "mode": Extra(type="string", choices=("same", "inverse")),
    "note": Extra(type="string"),
    "loop": Extra(type="boolean"),
    "sound_duration": Extra(type="number"),
}
PLACE = "s3://loras/"


def _able() -> ModelEntry:
    return make_able(
        has_sound=True,
        extra_params=EXTRAS,
        has_lora=True,
        lora_sources=(PLACE, "/models/loras/"),
        has_interpolation=True,
        has_flow_shift=True,
        has_boundary_ratio=True,
        has_true_cfg=True,
    )


def _lora(**changes: Any) -> dict[str, Any]:
    return {"lora": {"name": "ink", "path": f"{PLACE}ink"} | changes}


def _extra(**values: Any) -> dict[str, Any]:
    return {"extra_params": values}


INTERPOLATE = {"enable_frame_interpolation": True}


@pytest.mark.parametrize(
    ("body", "field", "value"),
    [
        pytest.param(
            _extra(strength=1, count=3, mode="same"),
            "extra_params",
            {"strength": 1, "count": 3, "mode": "same"},
            id="extras",
        ),
        pytest.param(
            _extra(loop=False, note="é", free=-5.5),
            "extra_params",
            {"loop": False, "note": "é", "free": -5.5},
            id="more-extras",
        ),
        pytest.param(_extra(strength=None), "extra_params", {}, id="extra-null"),
        pytest.param(_extra(), "extra_params", {}, id="no-extras"),
        pytest.param(_extra(preencode_mp4=True, preencode_batch_frames=5), "extra_params", {}, id="preencode"),
        pytest.param(_extra(preencode_mp4=0, preencode_batch_frames="x"), "extra_params", {}, id="preencode-off"),
        pytest.param(_extra(video_codec_options={"crf": 20}), "video_codec_options", {"crf": "20"}, id="codec-inside"),
        pytest.param(_extra(flow_shift=5), "flow_shift", 5.0, id="shift-inside"),
        pytest.param({"flow_shift": 5} | _extra(flow_shift=5), "flow_shift", 5.0, id="shift-twice"),
        pytest.param({"flow_shift": 100}, "flow_shift", 100.0, id="shift"),
        pytest.param({"boundary_ratio": 0}, "boundary_ratio", 0.0, id="boundary-lowest"),
        pytest.param({"boundary_ratio": 1}, "boundary_ratio", 1.0, id="boundary-highest"),
        pytest.param({"true_cfg_scale": 20}, "true_cfg_scale", 20.0, id="true-cfg"),
        pytest.param({"generate_sound": True, "sound_duration": 2.5}, "sound_duration_s", 2.5, id="sound"),
        pytest.param({"generate_sound": True} | _extra(sound_duration=2), "sound_duration_s", 2.0, id="sound-inside"),
        pytest.param(_lora(), "lora", Lora(name="ink", path="s3://loras/ink"), id="lora"),
        pytest.param(
            {"lora": {"adapter": "ink", "lora_local_path": "/models/loras/ink/", "lora_scale": -1, "lora_int_id": 7}},
            "lora",
            Lora(name="ink", path="/models/loras/ink/", scale=-1.0, int_id=7),
            id="lora-other-spellings",
        ),
        pytest.param(_lora(scale=None), "lora", Lora(name="ink", path="s3://loras/ink"), id="lora-null"),
        pytest.param({"lora": None}, "lora", None, id="no-lora"),
        pytest.param(INTERPOLATE, "interpolation", FrameInterpolation(exp=1, scale=1.0), id="interpolation"),
        pytest.param(
            INTERPOLATE | {"frame_interpolation_exp": 2, "frame_interpolation_scale": 0.5},
            "interpolation",
            FrameInterpolation(exp=2, scale=0.5),
            id="interpolation-details",
        ),
        pytest.param({"enable_frame_interpolation": False}, "interpolation", None, id="interpolation-off"),
    ],
)
def test_what_the_model_declares_is_taken(admit_body: Admit, body: dict[str, Any], field: str, value: object) -> None:
    """With its value, in every spelling."""
    assert value == getattr(admit_body(_able(), **body).request, field)


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        pytest.param({"extra_params": [1]}, INVALID, "extra_params", id="extras-list"),
        pytest.param({"extra_params": "{}"}, INVALID, "extra_params", id="extras-text"),
        pytest.param(_extra(speed=1), CAPABILITY, "extra_params.speed", id="extra-unknown"),
        pytest.param(_extra(**{"a b": 1}), INVALID, "extra_params", id="extra-name"),
        pytest.param(_extra(**{"\ud800": 1}), INVALID, "extra_params", id="extra-name-surrogate"),
        pytest.param(_extra(strength=1.01), INVALID, "extra_params.strength", id="number-above"),
        pytest.param(_extra(strength=-0.1), INVALID, "extra_params.strength", id="number-below"),
        pytest.param(_extra(strength="1"), INVALID, "extra_params.strength", id="number-text"),
        pytest.param(_extra(strength=True), INVALID, "extra_params.strength", id="number-true"),
        pytest.param(_extra(free=1e300), INVALID, "extra_params.free", id="number-huge"),
        pytest.param(_extra(free=float("inf")), INVALID, "extra_params.free", id="number-infinite"),
        pytest.param(_extra(free=float("nan")), INVALID, "extra_params.free", id="not-a-number"),
        pytest.param(_extra(free=10**400), INVALID, "extra_params.free", id="integer-huge"),
        pytest.param(_extra(count=1.0), INVALID, "extra_params.count", id="integer-float"),
        pytest.param(_extra(count=4), INVALID, "extra_params.count", id="integer-above"),
        pytest.param(_extra(mode="other"), INVALID, "extra_params.mode", id="choice"),
        pytest.param(_extra(note="x" * 513), INVALID, "extra_params.note", id="text-long"),
        pytest.param(_extra(note="a\0"), INVALID, "extra_params.note", id="text-nul"),
        pytest.param(_extra(note={"a": 1}), INVALID, "extra_params.note", id="text-object"),
        pytest.param(_extra(loop=1), INVALID, "extra_params.loop", id="boolean-number"),
        pytest.param(_extra(loop={"a": {}}), INVALID, "extra_params.loop", id="boolean-object"),
        *(
            pytest.param(
                _extra(preencode_mp4=1, preencode_batch_frames=wrong),
                INVALID,
                "extra_params.preencode_batch_frames",
                id=f"batch-{wrong}",
            )
            for wrong in (0, -1, 1.5, True, "5", None, 2**31)
        ),
        pytest.param(
            _extra(preencode_mp4=True) | INTERPOLATE,
            INVALID,
            "extra_params.preencode_mp4",
            id="preencode-and-interpolation",
        ),
        pytest.param({"flow_shift": 4} | _extra(flow_shift=5), INVALID, "extra_params.flow_shift", id="shift-differs"),
        pytest.param(_extra(flow_shift=0), INVALID, "extra_params.flow_shift", id="shift-nought-inside"),
        pytest.param({"flow_shift": 0}, INVALID, "flow_shift", id="shift-nought"),
        pytest.param({"flow_shift": 101}, INVALID, "flow_shift", id="shift-above"),
        pytest.param({"boundary_ratio": 1.01}, INVALID, "boundary_ratio", id="boundary"),
        pytest.param({"true_cfg_scale": 20.01}, INVALID, "true_cfg_scale", id="true-cfg"),
        pytest.param({"generate_sound": True, "sound_duration": 0}, INVALID, "sound_duration", id="sound-nought"),
        pytest.param({"sound_duration": 2}, INVALID, "sound_duration", id="sound-without-switch"),
        pytest.param({"extra_params.flow_shift": 5}, UNKNOWN, "extra_params.flow_shift", id="dotted-name"),
        pytest.param({"lora": "ink"}, INVALID, "lora", id="lora-text"),
        pytest.param({"lora": [{"name": "x"}]}, INVALID, "lora", id="lora-list"),
        pytest.param({"lora": {}}, INVALID, "lora", id="lora-empty"),
        pytest.param({"lora": {"name": "x"}}, INVALID, "lora", id="lora-without-path"),
        pytest.param({"lora": {"path": f"{PLACE}x"}}, INVALID, "lora", id="lora-without-name"),
        pytest.param(_lora(name="../x"), INVALID, "lora", id="lora-name"),
        pytest.param(_lora(path="/etc/passwd"), INVALID, "lora", id="lora-elsewhere"),
        pytest.param(_lora(path=f"{PLACE}../secrets/x"), INVALID, "lora", id="lora-dots"),
        pytest.param(_lora(path="/models/loras/./../x"), INVALID, "lora", id="lora-dots-in-a-folder"),
        pytest.param(_lora(path=f"{PLACE}a\n"), INVALID, "lora", id="lora-line-feed"),
        pytest.param(_lora(path="/models/lorasx"), INVALID, "lora", id="lora-folder-beside"),
        pytest.param(_lora(scale=11), INVALID, "lora", id="lora-scale"),
        pytest.param(_lora(scale=True), INVALID, "lora", id="lora-scale-true"),
        pytest.param(_lora(int_id=0), INVALID, "lora", id="lora-id"),
        pytest.param(_lora(int_id=1.5), INVALID, "lora", id="lora-id-float"),
        pytest.param(_lora(adapter="other"), INVALID, "lora", id="lora-names-differ"),
        pytest.param(_lora(rank=4), UNKNOWN, "lora", id="lora-unknown"),
        pytest.param(INTERPOLATE | {"frame_interpolation_exp": 0}, INVALID, "frame_interpolation_exp", id="exp-nought"),
        pytest.param(INTERPOLATE | {"frame_interpolation_exp": 5}, INVALID, "frame_interpolation_exp", id="exp-above"),
        pytest.param(
            INTERPOLATE | {"frame_interpolation_scale": 0}, INVALID, "frame_interpolation_scale", id="scale-nought"
        ),
        pytest.param({"frame_interpolation_exp": 1}, INVALID, "frame_interpolation_exp", id="exp-without-switch"),
        pytest.param(
            {"frame_interpolation_model_path": "/x"}, CAPABILITY, "frame_interpolation_model_path", id="weights"
        ),
        pytest.param({"enable_frame_interpolation": "true"}, INVALID, "enable_frame_interpolation", id="switch-text"),
        pytest.param({"callback_url": "ftp://example.com/x"}, INVALID, "callback_url", id="callback-scheme"),
        pytest.param({"callback_url": "https://"}, INVALID, "callback_url", id="callback-host"),
        pytest.param({"callback_url": "https://[::1/x"}, INVALID, "callback_url", id="callback-brackets"),
        pytest.param({"callback_url": "https://a/ b"}, INVALID, "callback_url", id="callback-blank"),
        pytest.param({"callback_url": "https://é.example/"}, INVALID, "callback_url", id="callback-not-ascii"),
        pytest.param(
            {"callback_url": "https://example.com/" + "x" * 1005}, INVALID, "callback_url", id="callback-long"
        ),
        pytest.param({"callback_url": 7}, INVALID, "callback_url", id="callback-number"),
    ],
)
def test_anything_else_is_refused_by_name(
    admit_body: Admit, body: dict[str, Any], code: FailureCode, param: str
) -> None:
    """At submit, though the model could."""
    with pytest.raises(VitascopeError) as caught:
        admit_body(_able(), **body)
    assert (code, param) == (caught.value.code, caught.value.param)
    assert len(str(caught.value).encode()) < 600


def test_a_model_that_declares_nothing_takes_no_extras(admit_body: Admit) -> None:
    """The refusal says so; what travels there for everyone is taken."""
    with pytest.raises(VitascopeError, match="it takes: none") as caught:
        admit_body(extra_params={"strength": 1})
    assert (CAPABILITY, "extra_params.strength") == (caught.value.code, caught.value.param)
    assert {} == admit_body(extra_params={"preencode_mp4": True}).request.extra_params


def test_false_asks_for_no_ability(admit_body: Admit) -> None:
    """A client that spells out its defaults is not refused."""
    request = admit_body(enable_frame_interpolation=False, generate_sound=False).request
    assert (None, False) == (request.interpolation, request.generate_sound)


def test_the_callback_is_kept(admit_body: Admit) -> None:
    """As it was sent."""
    url = "https://hooks.example.com:8443/a?b=c"
    assert url == admit_body(callback_url=url).admission.callback_url


@pytest.mark.parametrize("name", ["flow_shift", "sound_duration"])
def test_what_travels_in_extra_params_needs_its_ability_there_too(name: str, admit_body: Admit) -> None:
    """Refused by the name that the client used, before any GPU time."""
    with pytest.raises(VitascopeError) as caught:
        admit_body(make_able(has_sound=True), generate_sound=True, **_extra(**{name: 3}))
    assert (CAPABILITY, f"extra_params.{name}") == (caught.value.code, caught.value.param)
