# Each target sets up .venv by itself on a machine with Python 3.11 and make.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Two test workers share two cores: threads that wait must sleep, not spin.
TEST := OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -n 2

.PHONY: demo test test-long mutants bench docs lint setup setup-bench clean

setup: $(VENV)/.installed
setup-bench: $(VENV)/.installed-bench

$(VENV)/.installed: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (once; about two minutes)"
	@$(INSTALL) "torch==2.13.0"
	@$(INSTALL) --editable ".[dev]"
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	@$(INSTALL) --editable ".[bench]"
	@touch $@

demo: setup
	@$(BIN)/meor demo --out demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup lint
	$(TEST) -m "not long"

test-long: setup
	$(TEST) --timeout 7200 -m long

# A seeded sample of small changes to the source; COUNT=60 for a short one, AGAIN=--again for survivors alone.
COUNT ?= 300
mutants: setup
	OMP_WAIT_POLICY=passive $(BIN)/python -m tests.mutation.mutants --count $(COUNT) $(AGAIN)

docs: setup
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_build
	@echo "docs/_build/index.html"

bench: setup-bench
	$(BIN)/python -m benchmarks $(ONLY)

clean:
	rm -rf $(VENV) demo docs/_build
