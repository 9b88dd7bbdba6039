# What a user needs: demo, up, test. What a contributor needs: check, format, bench.
#
#   PYTHON         the interpreter to build .venv with (3.11 to 3.13)          default python3
#   TORCH_BACKEND  the torch build: cpu, cu130, auto, … (uv's --torch-backend)  default: the one on PyPI
#                  A machine without a GPU saves gigabytes with TORCH_BACKEND=cpu, where the PyTorch index can be reached.
#   TESTS          what `make test` runs                                        default tests
#   SEED, JOBS, FAULTS  of `make soak`                                          default: drawn and printed, 500, 200

PYTHON ?= python3
TORCH_BACKEND ?=
TESTS ?= tests
SEED ?=
JOBS ?= 500
FAULTS ?= 200
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DELETE_ON_ERROR:
.PHONY: setup demo up test faults soak check format bench constraints clean

setup: $(READY)

$(READY): pyproject.toml constraints/constraints.txt tools/setup_venv.py
	$(PYTHON) tools/setup_venv.py --venv $(VENV) --torch-backend "$(TORCH_BACKEND)"
	@touch $@

demo: $(READY)
	$(BIN)/vitascope generate "a red circle moving right on a white background" -o demo.mp4 --seed 7

up: $(READY)
	$(BIN)/vitascope up

test: $(READY)
	$(BIN)/python -m pytest $(TESTS)

soak: $(READY)
	cd tests && ../$(BIN)/python -m faults.soak --jobs $(JOBS) --faults $(FAULTS) $(if $(SEED),--seed $(SEED))

faults: $(READY)
	$(BIN)/python -m pytest -m "" tests/faults

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_shape.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python -m bench

constraints:
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --no-header --no-annotate \
		--upgrade --output-file constraints/constraints.txt

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist demo.mp4
