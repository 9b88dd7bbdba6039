"""Texts of a form as values: by the name of the field, and nothing that is only nearly one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.ingress.videos.form_fields import parse_urlencoded, read_fields

TAKEN = [
    pytest.param("num_frames", "9", 9, id="integer"),
    pytest.param("num_frames", "+9", 9, id="plus"),
    pytest.param("num_frames", " 9 ", 9, id="blanks"),
    pytest.param("num_frames", "09", 9, id="leading nought"),
    pytest.param("num_frames", "9.0", 9, id="whole with a point"),
    pytest.param("seed", "-9223372036854775808", -(2**63), id="least seed"),
    pytest.param("fps", "7.5", 7.5, id="rate"),
    pytest.param("fps", "8", 8, id="whole rate"),
    pytest.param("fps", "24000/1001", "24000/1001", id="ratio"),
    pytest.param("guidance_scale", "5", 5.0, id="number"),
    pytest.param("guidance_scale", "1e1", 10.0, id="exponent"),
    pytest.param("seconds", "4", "4", id="seconds stay text"),
    pytest.param("prompt", " ", " ", id="a blank is a prompt"),
    pytest.param("prompt", "null", "null", id="null is a prompt"),
    pytest.param("extra_params", "null", None, id="null object"),
    pytest.param("extra_params", '{"a": [1]}', {"a": [1]}, id="object"),
    pytest.param("input_reference", "https://x.example/a.png", "https://x.example/a.png", id="address"),
    pytest.param("input_reference", '{"image_url": "u"}', {"image_url": "u"}, id="media object"),
    pytest.param("image_reference", '[{"image_url": "u"}]', [{"image_url": "u"}], id="media list"),
    pytest.param("unheard_of", "x", "x", id="unknown is left to admission"),
    *(pytest.param("generate_sound", word, True, id=word) for word in ("true", "1", "YES", "On", "t", "y")),
    *(pytest.param("generate_sound", word, False, id=word) for word in ("false", "0", "no", "OFF", "f", "N")),
]


@pytest.mark.parametrize(("name", "text", "expected"), TAKEN)
def test_a_text_is_what_its_field_says(name: str, text: str, expected: Any) -> None:
    """With the type that it has in JSON."""
    assert {"prompt": "p"} | {name: expected} == read_fields({"prompt": "p", name: text})
    assert type(expected) is type(read_fields({name: text})[name])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("num_frames", "9.5", id="half"),
        pytest.param("num_frames", "1e1", id="exponent"),
        pytest.param("num_frames", "0x9", id="hexadecimal"),
        pytest.param("num_frames", "9" * 31, id="endless"),
        pytest.param("guidance_scale", "nan", id="nan"),
        pytest.param("guidance_scale", "inf", id="infinite"),
        pytest.param("guidance_scale", "1e999", id="past all floats"),
        pytest.param("guidance_scale", "5,0", id="comma"),
        pytest.param("generate_sound", "maybe", id="maybe"),
        pytest.param("extra_params", "[1]", id="list for an object"),
        pytest.param("extra_params", "{bad", id="broken"),
        pytest.param("extra_params", '1, "b": 2', id="more than one value"),
        pytest.param("extra_params", '{"a": 1, "a": 2}', id="a name twice"),
        pytest.param("lora", "7", id="number for an object"),
        pytest.param("image_reference", "[" * 40, id="deep"),
    ],
)
def test_what_is_only_nearly_one_is_refused(name: str, text: str) -> None:
    """By the field's name."""
    with pytest.raises(VitascopeError) as caught:
        read_fields({name: text})
    assert (FailureCode.INVALID_REQUEST, name) == (caught.value.code, caught.value.param)


def test_an_empty_text_is_an_absent_field() -> None:
    """Whatever its type."""
    assert {} == read_fields({"prompt": "", "num_frames": "", "extra_params": "", "generate_sound": ""})


def test_parts_of_an_object_come_together() -> None:
    """As clients write objects that know no JSON in forms; addresses and labels stay texts."""
    texts = {
        "image_reference[image_url]": "https://x.example/1",
        "extra_params[steps]": "3",
        "extra_params[on]": "true",
        "extra_params[inner][name]": "a b",
        "labels[n]": "7",
        "input_references[]": "u",
    }
    assert {
        "image_reference": {"image_url": "https://x.example/1"},
        "extra_params": {"steps": 3, "on": True, "inner": {"name": "a b"}},
        "labels": {"n": "7"},
        "input_references": "u",
    } == read_fields(texts)


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param({"lora": '{"name": "a"}', "lora[path]": "b"}, id="whole and parts"),
        pytest.param({"lora[a][b][c][d]": "1"}, id="deep"),
        pytest.param({"lora[a]": "1", "lora[a][b]": "2"}, id="inside of a text"),
        pytest.param({"lora[a]": "1", "lora[]": "2"}, id="no key"),
    ],
)
def test_parts_that_do_not_fit_are_refused(texts: dict[str, str]) -> None:
    """By the field's name."""
    with pytest.raises(VitascopeError) as caught:
        read_fields(texts)
    assert "lora" == caught.value.param


def test_the_other_notation_is_read() -> None:
    """With blank values, and the last of those that are repeated."""
    assert {"prompt": "ä b", "seed": "", "n": "2"} == parse_urlencoded(b"prompt=%C3%A4+b&seed=&n=1&n=2", 10)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"a=%ff", id="not utf-8"),
        pytest.param(b"a=\xff", id="not ascii"),
        pytest.param(b"&a=1" * 11, id="many"),
    ],
)
def test_a_broken_form_in_the_other_notation_is_refused(content: bytes) -> None:
    """With what is wrong."""
    with pytest.raises(VitascopeError) as caught:
        parse_urlencoded(content, 10)
    assert FailureCode.INVALID_REQUEST is caught.value.code


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=40), max_size=6))
def test_any_texts_are_read_or_refused(texts: dict[str, str]) -> None:
    """Nothing else comes of them."""
    codes: list[FailureCode] = []
    try:
        read_fields(texts)
    except VitascopeError as error:
        codes.append(error.code)
    assert codes in ([], [FailureCode.INVALID_REQUEST])
