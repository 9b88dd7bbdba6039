"""A job that failed after its denoising is tried again: the GPU time is not paid a second time."""

import io
import json

from pipeline import Up

WISH = {"seed": 31}


def test_failed_decode_is_retried_from_its_latents(up: Up) -> None:
    """The store gives back other bytes than it was given until decode gives up; mended, the retry makes the file."""
    expected = up.wait(up.submit(**WISH)["id"])["result"]["sha256"]
    job, key, latents = _submit_and_damage_latents(up)
    failed = up.wait(job)
    assert ("failed", "object_corrupt", "decode") == (
        failed["status"],
        failed["error"]["code"],
        failed["error"]["stage"],
    )
    _put(up, key, latents)
    ran = up.run_command("jobs", "retry", job, "--watch", "--json")
    assert 0 == ran.returncode, ran.stderr
    states = [json.loads(line) for line in ran.stdout.splitlines()]
    done = states[-1]
    assert ("decoding", "succeeded", job, 1) == (states[0]["status"], done["status"], done["retry_of"], done["attempt"])
    assert (expected, {"decode", "encode"}, 0.0) == (
        done["result"]["sha256"], set(done["result"]["stage_seconds"]), done["result"]["actual_gpu_seconds"]
    )  # fmt: skip
    old = up.get(job)
    assert ("failed", done["id"], failed["error"]) == (old["status"], old["retried_as"], old["error"])
    again = up.run_command("jobs", "retry", job)
    assert f"{done['id']} succeeded" in again.stdout


def test_what_has_not_failed_is_refused(up: Up) -> None:
    """In words, with status 3 and what to do."""
    job = up.wait(up.submit(seed=32)["id"])["id"]
    for verb, says in (("retry", "It is succeeded."), ("preempt", "no GPU group")):
        ran = up.run_command("jobs", verb, job)
        assert (3, True) == (ran.returncode, says in ran.stderr), ran.stderr


def _submit_and_damage_latents(up: Up) -> tuple[str, str, bytes]:
    """A job whose latents lie damaged in the store before decode sees them: its id, their key and their content."""
    decode = up.children()["decode"]
    decode.suspend()
    try:
        job = up.submit(**WISH)["id"]
        up.wait(job, lambda state: state["status"] == "decoding")
        client = up.store()
        (key,) = [str(item.object_name) for item in client.list_objects("vitascope", f"latents/default/{job}/", True)]
        with client.get_object("vitascope", key) as answer:
            latents = answer.read()
        _put(up, key, latents[::-1])
    finally:
        decode.resume()
    return job, key, latents


def _put(up: Up, key: str, content: bytes) -> None:
    up.store().put_object("vitascope", key, io.BytesIO(content), len(content))
