# Everything a newcomer needs: `make demo` shows what Slacktide does, `make test` checks that it does it.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TORCH_READY := .venv/.ready-torch
BROWSER_READY := .venv/.ready-browser
LOCKER := uv==0.13.8
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# Bytecode is written when a module is first imported. To compile all that is installed takes longer than to
# install it; and where nothing is written, every process compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test thorough check bench campaigns docs pictures dist lock clean

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## make the virtual environment in .venv (done by the other targets as needed)

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Slacktide needs Python 3.11 or newer, got " + sys.version.split()[0] + "; set PYTHON=/path/to/python3.11")'
	@echo "setting up .venv (once, about a minute)"
	@$(PYTHON) -m venv .venv
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps --editable .
	@$(BIN)/python -c 'import matplotlib.pyplot, numba, pyarrow.parquet, rich.live, slacktide.app.jobs.controller, slacktide.cli'
	@touch $(READY)

$(TORCH_READY): $(READY) requirements-torch.lock
	@echo "adding PyTorch, transformers and Lightning for the tests of the examples that use them"
	@echo "(once: 0.3 GB where pip is offered a build of PyTorch for CPUs, else 2.8 GB)"
	@$(PIP) -r requirements-torch.lock \
		&& touch $(TORCH_READY) || echo "they could not be installed: the tests of these examples will be skipped"
	@test ! -e $(TORCH_READY) || $(BIN)/python -c 'import lightning.pytorch, torch, transformers'

$(BROWSER_READY): $(READY)
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null; then :; else \
		echo "adding Chromium for the test of the dashboard in a browser (once)"; \
		DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 chromium >/dev/null 2>&1 \
		|| echo "it could not be installed: this test will be skipped"; fi
	@touch $(BROWSER_READY)

demo: $(READY)  ## train a real job on a replayed spot market: preempted for real, in time, with the bill
	@$(BIN)/slacktide demo

check: $(READY)  ## style, types and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest tests/architecture

test: $(READY)  ## all checks and tests; TORCH=no leaves PyTorch out
	@$(BIN)/python -m tests.machine_code & \
		$(MAKE) --no-print-directory check $(BROWSER_READY) $(if $(filter no,$(TORCH)),,$(TORCH_READY)); status=$$?; wait; exit $$status
	$(BIN)/pytest -n 5 --dist worksteal

thorough: export SLACKTIDE_THOROUGH = yes
thorough: test  ## the same, with three times the examples of the slowest laws

bench: $(READY)  ## throughput and quality figures beside their references
	$(BIN)/python -m benchmarks

campaigns: $(READY)  ## attack the engine for hours: kills, faults, money, damaged inputs; stops at the first finding
	$(BIN)/python -m campaigns

docs: $(READY)  ## build the documentation as a site in site/; open site/index.html, no server is needed
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict && echo "site/index.html"

pictures: $(READY)  ## draw the pictures of the documentation anew, by the commands that its pages show
	$(BIN)/python -m tools.pictures

dist: $(READY)  ## build a wheel and an sdist in dist/
	$(BIN)/python -m build --no-isolation

lock:  ## write the pins in requirements.lock again, each with the hashes of all its files
	@$(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check $(LOCKER)
	@.venv-lock/bin/python -m tests.lock_pins; status=$$?; rm -rf .venv-lock; exit $$status

clean:  ## remove what the other targets made
	rm -rf .venv demo site build dist .mypy_cache .ruff_cache .pytest_cache
