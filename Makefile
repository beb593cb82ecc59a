# Everything runs from the project's own .venv, which these targets make and keep up to date.
# `make quickstart` and `make test` need only Python 3.11, make and git.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
INSPECT := $(VENV)/inspect
WORKERS ?= 3

.PHONY: help setup quickstart report docs test lint lock bench faults clean

help:
	@echo "make quickstart   both benchmarks, played small, scored and reported (sets everything up first)"
	@echo "make report       every report, on the simulated data sets, in reports/index.html"
	@echo "make docs         guides, gallery of figures and API reference, in build/docs/index.html"
	@echo "make test         the tests (sets everything up first)"
	@echo "make setup        only the environment in $(VENV)"
	@echo "make lint         ruff, format check, types"
	@echo "make bench        the benchmarks that have targets"
	@echo "make faults       the whole campaign of faults (half an hour); its counts go to docs/reliability.md"
	@echo "make lock         resolve requirements.lock anew"

setup: $(STAMP)

# The stamp is newer than the lock and the project file when the environment matches them.
# uv is fetched into the venv when it is not there; it compiles bytecode, without which
# imports are two to four times slower.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "cilab needs Python 3.11 or later; $(PYTHON) is older. Try: make setup PYTHON=python3.11"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "python cannot make a venv. On Debian: apt-get install python3-venv"; exit 2; }
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	UV_COMPILE_BYTECODE=1 VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --no-deps --require-hashes -r requirements.lock
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --no-deps --editable .
	@$(BIN)/python -m compileall -q cilab
	@touch $@

quickstart: setup
	@$(BIN)/cilab quickstart

report: setup
	@$(BIN)/cilab report all

docs: setup
	@rm -rf build/docs && mkdir -p build/docs/.source
	@$(BIN)/sphinx-build -q -j 2 --fail-on-warning -c docs/site build/docs/.source build/docs
	@echo "build/docs/index.html"

# More workers than the two processors of the gate: some tests mostly wait.
test: setup $(INSPECT)/.ready
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=15 tests
	PYTHONPATH=$(CURDIR)/$(INSPECT) $(BIN)/python -m pytest -k "test_inspect or exported" \
	  tests/datasets/importers/test_inspect.py tests/extending/test_extending.py

# The extra `inspect` asks for older versions of some packages than the lock has. Its own tests alone see them.
$(INSPECT)/.ready: requirements-inspect.lock $(STAMP)
	@rm -rf $(INSPECT)
	UV_COMPILE_BYTECODE=1 VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --no-deps --require-hashes \
	  --target $(INSPECT) -r requirements-inspect.lock
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/check_types.py

faults: setup
	@rm -f $(VENV)/faults.jsonl
	CILAB_FAULTS_LOG=$(CURDIR)/$(VENV)/faults.jsonl $(BIN)/python -m pytest -s -m study tests/faults
	$(BIN)/python -m tests.faults.document $(VENV)/faults.jsonl

bench: setup
	$(BIN)/python benchmarks/run_all.py $(BENCH)

# Next to the lock, what the extra `inspect` adds to it or wants in another version.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-header --no-annotate \
  --generate-hashes
EVERYTHING = pyproject.toml requirements-local.in --extra local --extra cluster --extra s3 --extra dev
PINS = sed -n '/==/s/ *\\$$//p'

lock: $(BIN)/uv
	$(COMPILE) $(EVERYTHING) --upgrade -o requirements.lock
	cp requirements.lock $(VENV)/both.lock
	$(COMPILE) $(EVERYTHING) --extra inspect -o $(VENV)/both.lock
	$(PINS) requirements.lock > $(VENV)/pins
	$(PINS) $(VENV)/both.lock | grep -vxFf $(VENV)/pins | $(COMPILE) --no-deps - -o requirements-inspect.lock

clean:
	rm -rf $(VENV) build dist .ruff_cache .hypothesis
