# Everything here sets itself up: the only needs are make and a Python of 3.11 or newer.
# `make PYTHON=/path/to/python3.13 venv` chooses the interpreter.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
SEED ?= 1
MINUTES ?= 3
TRIGGERS ?= 100000

.PHONY: help venv demo test lint format bench chaos protos lock clean

help:  ## Say what each target does
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

venv: .venv/.installed  ## Make .venv with the worker, its development tools and an embedded Postgres

.venv/.installed: pyproject.toml requirements-dev.lock
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer found: install one, or name it with PYTHON=/path/to/python." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: venv  ## Watch triggers become runs: embedded Postgres, mock Run Service, worker, live table
	$(BIN)/scheduler-worker demo

test: venv  ## Unit, contract, integration and a short chaos run
	$(BIN)/python -m pytest

lint: venv  ## Style, types, import arrows, generated code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/generate_protos.py --check

format: venv  ## Put the code in the project's form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: venv  ## Measure; prints a table and writes benchmarks/results.json (TRIGGERS=100000)
	$(BIN)/python -m benchmarks --triggers $(TRIGGERS)

chaos: venv  ## A long seeded fault run (SEED=1 MINUTES=3)
	$(BIN)/python -m tests.chaos --seed $(SEED) --minutes $(MINUTES)

protos: venv  ## Write the generated protobuf code anew
	$(BIN)/python .ci/generate_protos.py

LOCK := uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet

lock:  ## Resolve the lock files anew (needs uv on the PATH)
	$(LOCK) pyproject.toml -o requirements.lock
	$(LOCK) pyproject.toml --extra dev -o requirements-dev.lock
	echo hatchling | $(LOCK) - --constraint requirements-dev.lock -o requirements-build.lock

clean:  ## Remove everything that was made here
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .demo
