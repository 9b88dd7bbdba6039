"""Bytes of checkpoints and hand-overs: what goes in comes out, and nothing hostile gets far."""

import contextlib
import json
import pickle
import struct
from typing import Any

import diffusers
import pytest
import torch
from diffusers.guiders.adaptive_projected_guidance import MomentumBuffer
from hypothesis import given, settings
from hypothesis import strategies as st

from vitascope.engine import codec
from vitascope.engine.codec import Blob, Packer, check_stamp, dumps, loads, unpack
from vitascope.engine.errors import BlobError, BlobFormatError, BlobVersionError

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool)
SHAPES = st.lists(st.integers(0, 3), max_size=4)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    return torch.randint(0, 2, draw(SHAPES)).to(draw(st.sampled_from(DTYPES)))


VALUES = st.recursive(
    SCALARS | tensors() | st.sampled_from(DTYPES),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(SCALARS, inner, max_size=3)
    ),
    max_leaves=12,
)


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[name], right[name]) for name in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def sent(value: object, **header: Any) -> bytes:
    packer = Packer()
    return dumps(packer, packer.pack(value), kind="checkpoint", **header)


def received(data: bytes, old: object = None) -> Any:
    blob = loads(data, kind="checkpoint")
    return unpack(blob, blob.body, old=old)


def forged(body: object, **tensors: torch.Tensor) -> bytes:
    packer = Packer()
    packer.tensors = dict(tensors)
    return dumps(packer, body, kind="checkpoint")


@given(VALUES)
def test_what_goes_in_comes_out(value: Any) -> None:
    """Any nest of scalars, tensors, lists, tuples and dicts keeps its values, types, dtypes and order."""
    assert same(value, received(sent(value)))


@given(VALUES)
def test_equal_values_give_equal_bytes(value: Any) -> None:
    """A blob is a function of its content: resumed runs can be compared by their bytes."""
    assert sent(value) == sent(value)


def test_tensor_met_twice_is_stored_once() -> None:
    """Aliases cost nothing, and a view does not drag its base along."""
    base = torch.arange(1000.0)
    blob = loads(sent([base[:10], base, base]), kind="checkpoint")

    assert [40, 4000] == sorted(tensor.nbytes for tensor in blob.tensors.values())


def test_generator_goes_on_where_it_was() -> None:
    """Restored in place, so that all who hold the generator see it."""
    generator = torch.Generator().manual_seed(5)
    torch.rand(3, generator=generator)
    data = sent(generator)
    expected = torch.rand(4, generator=generator)
    other = torch.Generator().manual_seed(6)

    assert received(data, old=other) is other
    assert torch.equal(expected, torch.rand(4, generator=other))
    assert torch.equal(expected, torch.rand(4, generator=received(data)))


def test_scheduler_is_restored_in_place() -> None:
    """Attributes go back into the job's own scheduler; its config stays the model folder's."""
    scheduler = diffusers.UniPCMultistepScheduler()
    scheduler.set_timesteps(4)
    scheduler.last_sample = torch.ones(2)
    data = sent(scheduler)
    other = diffusers.UniPCMultistepScheduler(solver_order=3)

    assert received(data, old=other) is other
    assert torch.equal(scheduler.timesteps, other.timesteps)
    assert torch.equal(torch.ones(2), other.last_sample)
    assert other.config.solver_order == 3


def test_momentum_of_a_guider_is_made_anew() -> None:
    """A part that a guider grew during the loop travels with it."""
    buffer = MomentumBuffer(0.5)
    buffer.update(torch.ones(2))
    restored = received(sent([buffer]))[0]

    assert isinstance(restored, MomentumBuffer)
    assert torch.equal(torch.ones(2), restored.running_average)


class Stranger:
    pass


@pytest.mark.parametrize(
    "value",
    [Stranger(), {1, 2}, b"bytes", torch.nn.Linear(1, 1), diffusers.UniPCMultistepScheduler, print],
    ids=["object", "set", "bytes", "module", "class", "function"],
)
def test_what_cannot_travel_is_an_error_at_once(value: object) -> None:
    """A sampler with unknown state fails at its first checkpoint, not at resume."""
    with pytest.raises(TypeError, match="cannot travel"):
        Packer().pack([value])


def test_other_library_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint of another diffusers or torch could be read and would not be exact."""
    data = sent([1])
    monkeypatch.setattr(codec, "VERSIONS", {**codec.VERSIONS, "torch": "1.0"})
    with pytest.raises(BlobVersionError, match="was made by"):
        loads(data, kind="checkpoint")


def test_stamp_names_what_differs() -> None:
    """The error says which entry is another one, and with which values."""
    blob = loads(sent([1], stamp={"request": "a", "fingerprint": "f"}), kind="checkpoint")
    check_stamp(blob, {"fingerprint": "f"})
    with pytest.raises(BlobVersionError, match="request 'a', here it is 'b'"):
        check_stamp(blob, {"request": "b"})


def test_kinds_are_told_apart() -> None:
    """A hand-over is no checkpoint."""
    with pytest.raises(BlobFormatError, match="of kind 'latents'"):
        loads(sent([1]), kind="latents")


@given(st.binary(max_size=200))
def test_noise_is_refused(data: bytes) -> None:
    """Arbitrary bytes end in our error and nothing else."""
    with pytest.raises(BlobError):
        loads(data, kind="checkpoint")


@settings(max_examples=300)
@given(st.data())
def test_flipped_and_cut_blobs_never_crash(data: st.DataObject) -> None:
    """A blob with a byte changed, or cut short, is refused with our error, or nothing of its content changed."""
    value = [torch.arange(4.0), {"a": (1, None)}]
    whole = sent(value)
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        harmed = whole[:at]
    else:
        harmed = whole[:at] + bytes([data.draw(st.integers(0, 255))]) + whole[at + 1 :]
    with contextlib.suppress(BlobError):  # the padding of the header may be any white space
        assert same(value, received(harmed))


@pytest.mark.parametrize("part", ["header", "tensors"])
def test_one_flipped_bit_is_noticed(part: str) -> None:
    """In the numbers of the header and in those of the tensors alike: both would be read without complaint."""
    whole = sent([7654321, torch.arange(4.0)])
    at = whole.index(b"7654321") if part == "header" else whole.index(torch.arange(4.0).numpy().tobytes()) + 6
    harmed = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
    with pytest.raises(BlobFormatError, match="is damaged"):
        loads(harmed, kind="checkpoint")


def test_other_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A blob of a later release says so before anything of it is read."""
    monkeypatch.setattr(codec, "FORMAT", 2)
    data = sent([1])
    monkeypatch.undo()
    with pytest.raises(BlobVersionError, match="of format 2, this reads 1"):
        loads(data, kind="checkpoint")


def header_of(length: int, header: bytes = b"") -> bytes:
    return struct.pack("<Q", length) + header


HOSTILE = {
    "empty": b"",
    "short": b"\x01\x00",
    "length-beyond-the-end": header_of(1000, b"{}"),
    "length-of-exabytes": header_of(2**63, b"{}"),
    "length-zero": header_of(0),
    "no-metadata": header_of(2, b"{}"),
    "metadata-is-text": header_of(21, b'{"__metadata__":"xyz"'),
    "nested-json": header_of(200_000, b"[" * 200_000),
    "pickle": pickle.dumps({"latents": [1, 2, 3] * 100}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_header_is_refused(case: str) -> None:
    """Lengths are checked before anything of that length is read."""
    with pytest.raises(BlobFormatError):
        loads(HOSTILE[case], kind="checkpoint")


def test_header_above_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A header may be long enough to be true and still longer than we read."""
    data = sent(["x" * 5000])
    monkeypatch.setattr(codec, "MAX_HEADER_BYTES", 4000)
    with pytest.raises(BlobFormatError, match="claims"):
        loads(data, kind="checkpoint")


@pytest.mark.parametrize("missing", ["format", "kind", "made_by", "stamp", "body"])
def test_incomplete_header_is_refused(missing: str) -> None:
    """Every entry of our header is needed."""
    data = sent([1])
    length = int.from_bytes(data[:8], "little")
    outer = json.loads(data[8 : 8 + length])
    inner = json.loads(outer["__metadata__"]["vitascope"])
    inner.pop(missing)
    outer["__metadata__"]["vitascope"] = json.dumps(inner)
    text = json.dumps(outer).encode()
    with pytest.raises(BlobFormatError, match="incomplete"):
        loads(header_of(len(text), text) + data[8 + length :], kind="checkpoint")


def obj(module: str, name: str, **attrs: Any) -> dict[str, Any]:
    return {"$obj": [module, name], "attrs": attrs}


UNIPC = ("diffusers.schedulers.scheduling_unipc_multistep", "UniPCMultistepScheduler")
BODIES = {
    "system": obj("os", "system"),
    "not-diffusers": obj("diffusersx.evil", "Evil"),
    "function-of-diffusers": obj("diffusers.utils.hub_utils", "extract_commit_hash"),
    "module-reached-through": obj("diffusers.schedulers.scheduling_unipc_multistep", "torch"),
    "class-imported-there": obj("diffusers.schedulers.scheduling_unipc_multistep", "SchedulerMixin"),
    "model": obj("diffusers.models.transformers.transformer_wan", "WanTransformer3DModel"),
    "scheduler-out-of-nothing": obj(*UNIPC),
    "module-not-loaded": obj("diffusers.no.such.module", "X"),
    "unknown-tag": {"$eval": "1"},
    "bare-list": [1, 2],
    "empty-object": {},
    "missing-tensor": {"$tensor": "t9", "cpu": True},
    "tensor-without-place": {"$tensor": "t0"},
    "dtype-is-a-function": {"$dtype": "save"},
    "rng-of-wrong-size": {"$rng": "t0"},
    "unhashable-key": {"$dict": [[{"$list": []}, 1]]},
    "half-a-pair": {"$dict": [[1]]},
    "list-of-a-number": {"$list": 3},
    "object-of-one-name": {"$obj": ["diffusers"], "attrs": {}},
}


@pytest.mark.parametrize("case", BODIES)
def test_hostile_body_is_refused(case: str) -> None:
    """Nothing is imported, called or made because a blob names it."""
    blob = loads(forged(BODIES[case], t0=torch.zeros(3)), kind="checkpoint")
    with pytest.raises(BlobFormatError):
        unpack(blob, blob.body)


@pytest.mark.parametrize("name", ["step", "_internal_dict", "__class__", "__dict__", "set_timesteps", "step_index"])
def test_attributes_that_are_no_state_are_refused(name: str) -> None:
    """A blob may not hide a method of the scheduler, change its config or its class."""
    blob = loads(forged(obj(*UNIPC, **{name: 1})), kind="checkpoint")
    with pytest.raises(BlobFormatError, match="refused attribute"):
        unpack(blob, blob.body, old=diffusers.UniPCMultistepScheduler())


def test_scheduler_of_another_class_is_refused() -> None:
    """The job's own scheduler decides what can be restored into it."""
    blob = loads(forged(obj(*UNIPC)), kind="checkpoint")
    with pytest.raises(BlobFormatError, match="the job has FlowMatchEuler"):
        unpack(blob, blob.body, old=diffusers.FlowMatchEulerDiscreteScheduler())


def test_deep_nesting_is_not_parsed() -> None:
    """A header nested beyond what the parser follows ends in our error."""
    data = sent("BODY")
    length = int.from_bytes(data[:8], "little")
    outer = json.loads(data[8 : 8 + length])
    nested = '{"$list": [' * 100_000 + "1" + "]}" * 100_000
    outer["__metadata__"]["vitascope"] = outer["__metadata__"]["vitascope"].replace('"BODY"', nested)
    text = json.dumps(outer).encode()
    with pytest.raises(BlobFormatError, match="cannot be read"):
        received(header_of(len(text), text) + data[8 + length :])


def test_deep_nesting_is_not_unpacked() -> None:
    """Nor does a body that the parser still follows overflow what unpacks it."""
    body: Any = 1
    for _ in range(700):
        body = {"$list": [body]}
    with pytest.raises(BlobFormatError, match="cannot be unpacked"):
        unpack(Blob(body, {}, {}), body)
