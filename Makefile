# make demo   set up what users need, run the main job end to end
# make serve  a live market on loopback, with simulated sellers, to click through
# make test   set up what developers need too, run every check that decides whether a change is good
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt
## Bytecode of what was installed: by all processors, where pip takes one; a file that none can be made of stays.
COMPILE := $(BIN)/python -m compileall -q -j 0 $(VENV)/lib > /dev/null || true
## Of the project's own modules it is kept, whatever the caller's habit: tests start many processes.
export PYTHONDONTWRITEBYTECODE :=
## One thread per test worker: the workers are the parallelism. A file's tests share what they set up.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1 POLARS_MAX_THREADS=1
WORKERS ?= 2
## Take tens of minutes, go on where they stopped, and write pages of the documentation.
ACCURACY := benchmarks/accuracy.py benchmarks/forecast.py benchmarks/intervals.py benchmarks/torch_models.py

.DEFAULT_GOAL := help
.PHONY: help demo serve test test-slow kernels pytest style types faults faults-outside bench accuracy paper lint docs packages sbom clean

help:
	@sed -n 's/^# //p' Makefile
	@echo "make test-slow, faults, faults-outside, bench, accuracy, paper, lint, docs, packages, sbom, clean: see CONTRIBUTING.md"

$(VENV)/ready-base: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "dpmarket needs Python 3.11 or newer; call make PYTHON=python3.x with one that is."; exit 1; }
	@echo "Setting up $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) hatchling editables
	@touch $@

$(VENV)/ready-users: pyproject.toml $(VENV)/ready-base
	@echo "Installing what users need ..."
	@$(PIP) --no-build-isolation --editable .
	@$(COMPILE)
	@touch $@

$(VENV)/ready-developers: pyproject.toml $(VENV)/ready-users
	@echo "Installing what developers need ..."
	@$(PIP) --no-build-isolation --editable '.[dev]'
	@$(COMPILE)
	@touch $@

$(VENV)/ready-service: pyproject.toml $(VENV)/ready-users
	@echo "Installing what the service needs ..."
	@$(PIP) --no-build-isolation --editable '.[service]'
	@$(COMPILE)
	@touch $@

$(VENV)/ready-docs: pyproject.toml $(VENV)/ready-users
	@echo "Installing what the documentation needs, and what it documents ..."
	@$(PIP) --no-build-isolation --editable '.[docs,service]'
	@$(COMPILE)
	@touch $@

$(VENV)/ready-real-data: pyproject.toml $(VENV)/ready-users
	@echo "Installing packages that ship real data ..."
	@$(PIP) --no-build-isolation --editable '.[real-data]'
	@$(COMPILE)
	@touch $@

demo: $(VENV)/ready-users
	@$(BIN)/dpmarket demo

serve: $(VENV)/ready-service
	@$(BIN)/python examples/live_market.py

lint: style types

style: $(VENV)/ready-developers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/ready-developers
	$(BIN)/mypy

kernels: $(VENV)/ready-users
	$(ONE_THREAD) $(BIN)/python tests/compile_kernels.py

pytest: $(VENV)/ready-developers
	$(ONE_THREAD) $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not slow"

## What takes one processor goes beside what takes another: compiling beside installing, mypy beside tests.
test:
	@$(MAKE) --no-print-directory --jobs 2 kernels style
	@$(MAKE) --no-print-directory --jobs 2 types pytest

test-slow: $(VENV)/ready-developers $(VENV)/ready-docs
	$(ONE_THREAD) $(BIN)/pytest -n $(WORKERS) -m slow

## Half an hour: every fault of tests/faults/faults.toml must be found by a test of `make test`.
faults: $(VENV)/ready-developers
	$(BIN)/python tests/faults/plant.py --workers $(WORKERS)

## By the tests that outlast a replacement of what is inside.
faults-outside: $(VENV)/ready-developers
	$(BIN)/python tests/faults/plant.py --workers $(WORKERS) --outside

## A script that fails keeps its older results; the page is written all the same. What takes long is apart.
bench: $(VENV)/ready-developers
	@failed=; for f in $(filter-out $(ACCURACY) benchmarks/private_statistics.py benchmarks/faults.py,$(wildcard benchmarks/[a-z]*.py)); do \
	  echo "== $$f"; $(BIN)/python $$f || failed="$$failed $$f"; done; \
	  $(BIN)/python benchmarks/_performance_page.py || exit 1; \
	  if [ -n "$$failed" ]; then echo "Failed:$$failed"; exit 1; fi

accuracy: $(VENV)/ready-real-data
	@for f in $(ACCURACY); do echo "== $$f"; $(ONE_THREAD) $(BIN)/python $$f || exit 1; done

## Tables and figures of the paper: computes what is not kept with the present settings, and draws all.
PAPER := $(filter-out paper/common.py paper/learners.py paper/printed.py paper/records.py paper/ways.py,$(wildcard paper/*.py))
paper: $(VENV)/ready-users
	@for f in $(PAPER); do $(ONE_THREAD) $(BIN)/python $$f $(PAPER_OPTIONS) || exit 1; done

docs: $(VENV)/ready-docs
	$(BIN)/sphinx-build -W --keep-going -q -E -a -b html docs site
	@echo "The documentation is in site/index.html"

## Wheel and sdist into empty environments, with and without each extra: make packages PYTHONS="python3.12 python3.13"
PYTHONS ?= $(PYTHON)
packages: $(VENV)/ready-developers
	$(BIN)/python tests/packaging/check_installs.py $(PYTHONS)

## What a service consists of, as a CycloneDX bill of materials: of an environment with nothing else in it.
sbom: $(VENV)/ready-developers
	@rm -rf out/sbom && $(PYTHON) -m venv out/sbom
	@out/sbom/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt '.[service,signing]'
	@$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file out/sbom.json out/sbom/bin/python
	@rm -rf out/sbom
	@echo "The bill of materials is in out/sbom.json"

clean:
	find src -name '*.nb[ic]' -delete
	rm -rf $(VENV) site dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
