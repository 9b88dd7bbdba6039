"""House limits that no linter knows: length of files and functions, and names spelt in one place."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("functions", "operator", "tests", "bench", "tools")
MODULE_MAX_LINES = 400
FUNCTION_MAX_LINES = 60
# Streams, subjects and object keys are spelt in these modules only; tests may spell what they expect.
SPELT_IN = {"subjects.py", "objects.py"}
STREAMS = "WORK|EVENTS|PROGRESS|DEAD|JOBS|GROUPS|LEASES|IDEMPOTENCY|TENANTS|DELIVERIES"
SUBJECT = re.compile(rf"vitascope\.(work|events|progress|dead|control)\.|VITASCOPE_({STREAMS})\b")
OBJECT_KEY = re.compile(r"^(records|inputs|checkpoints|latents|frames|outputs)/")


def main() -> int:
    """Print what breaks a limit; the status says whether anything does."""
    found = [line for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")) for line in check(path)]
    found += [f"{root}/__init__.py: a source root is no package" for root in ("functions", "operator")
              if (ROOT / root / "__init__.py").exists()]  # fmt: skip
    print("\n".join(found) or "shape: clean")
    return 1 if found else 0


def check(path: Path) -> Iterator[str]:
    """What breaks a limit in one file."""
    name, text = path.relative_to(ROOT), path.read_text(encoding="utf-8")
    lines = text.count("\n")
    if lines > MODULE_MAX_LINES:
        yield f"{name}: {lines} lines, at most {MODULE_MAX_LINES}"
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_MAX_LINES:
                yield f"{name}:{node.lineno}: {node.name} has {length} lines, at most {FUNCTION_MAX_LINES}"
    if name.parts[0] in {"functions", "operator"} and path.name not in SPELT_IN:
        yield from check_spelling(name, tree)


def check_spelling(name: Path, tree: ast.Module) -> Iterator[str]:
    """Subjects, streams and object keys that are spelt out where they should be asked for."""
    prose = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body and isinstance(node.body[0], ast.Expr)
    }  # fmt: skip
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)) or id(node) in prose:
            continue
        if SUBJECT.search(node.value):
            yield f"{name}:{node.lineno}: a subject or stream is spelt here; ask contracts/subjects.py"
        if OBJECT_KEY.search(node.value):
            yield f"{name}:{node.lineno}: an object key is spelt here; ask contracts/objects.py"


if __name__ == "__main__":
    sys.exit(main())
