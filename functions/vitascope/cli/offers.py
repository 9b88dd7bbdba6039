"""`vitascope models`: what the service offers."""

from vitascope.cli.answers import Json
from vitascope.cli.show import format_cell, out, print_json, print_table
from vitascope.cli.target import find_client


def show_models(*, as_json: bool) -> None:
    """Each model with what it can do, its defaults, limits and shapes."""
    answer = find_client().models()
    if as_json:
        print_json(answer)
        return
    for model in answer["data"]:
        mark = " (default)" if model.get("is_default") else ""
        name = f"{model['id']}{mark}  {model.get('title') or ''}".rstrip()
        out.print(name, style="bold", highlight=False, markup=False, soft_wrap=True)
        for line in (f"tasks     {describe_tasks(model)}", f"defaults  {describe_defaults(model['defaults'])}",
                     f"limits    {describe_limits(model['limits'])}"):  # fmt: skip
            out.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
        rows = [(b["name"], b["size"], b["num_frames"], b["price_units"]) for b in model["buckets"]]
        print_table(("bucket", "size", "frames", "price of default steps"), rows)


def describe_tasks(model: Json) -> str:
    """What the model can do."""
    more = (("has_sound", "sound"), ("has_second_guidance", "guidance_scale_2"))
    return ", ".join([*model["tasks"], *(name for field, name in more if model.get(field))])


def describe_defaults(defaults: Json) -> str:
    """What a request that leaves a number out gets."""
    value = {name: format_cell(value) for name, value in defaults.items()}
    return (
        f"{value.get('width', '-')}x{value.get('height', '-')}, {value.get('num_frames', '-')} frames, "
        f"{value.get('fps', '-')} fps, {value.get('num_inference_steps', '-')} steps, "
        f"guidance {value.get('guidance_scale', '-')}"
    )


def describe_limits(limits: Json) -> str:
    """Bounds of the free numbers of a request."""
    value = {name: format_cell(value) for name, value in limits.items()}
    return (
        f"steps {value.get('min_steps', '-')} to {value.get('max_steps', '-')}, "
        f"fps {value.get('min_fps', '-')} to {value.get('max_fps', '-')}, "
        f"guidance 0 to {value.get('max_guidance', '-')}"
    )
