# Two commands do all set-up on a fresh machine (Python 3.11 or newer and make are all that is needed):
#
#     make demo     creates .venv, installs, parses functions of Python's library and runs a Tree-LSTM over them in batches
#     make test     the same set-up, then pytest            (make test TESTS=tests/test_nn.py, make test PYTEST="-k tree";
#                   PYTEST=--long: also what takes longer, as .ci/run does; PYTEST=--slow: also many further cases)
#
#     make test-all    the tests with each Python from 3.11 to 3.13 that is found; names those that are not
#
#     make test-lowest    some of the tests with the lowest versions of all that it needs, and of Python
#
#     make test-cuda   also installs the extra `cuda` (no GPU needed) and compiles kernels for GPUs
#
#     make test-torch  the tests of PyTorch's code; PyTorch is installed unless the Python that is used has it
#
#     make gpu         on a machine with a GPU: the zoo's results and gradients, then measurements, to gpu.json
#                      (ARGS="--models tree_lstm", ARGS="--only training");
#                      PyTorch takes part where the Python that is used has it
#     make gpu-carry CARRY=folder    what a machine without a network needs for that (NEEDS="platformdirs": only these
#                      packages; THERE=3.12: its Python; CAPABILITY=9.0: its GPU), then there: make gpu CARRY=folder
#
#     make test-browser   the explorer in Debian's Chromium (as root it is installed if it is missing; BROWSER=required:
#                         without it, that is a failure), under node, in a notebook; and what npm's checks say of its scripts
#
#     make docs     the documentation site, to build/site (open index.html there); warnings, links that lead nowhere and anything that
#                   would be loaded from the network are failures
#
#     make live     build/live: the playground, and the lessons of the site, if that is made, run by Python in the reader's browser.
#                   Needs npm, and NumPy for WebAssembly: ACRONUMBA_PYODIDE_NUMPY names a file, or Debian's emscripten builds it
#
#     make lint     ruff, mypy, pyright    make format   writes the layout that ruff wants
#     make clean    removes .venv and what builds leave behind

VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
TESTS  ?= tests
PYTEST ?=
ARGS   ?=
CARRY  ?=
NEEDS  ?=
THERE  ?= 3.12
CAPABILITY ?= 9.0
LOWEST_PYTHON ?= python3.11 python3
PYTHON ?= python3 python3.13 python3.12 python3.11 python
VERSION := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
FITS   := import venv, ensurepip; $(VERSION)

# The many processes of tests do not compile the package and the tests anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo installed-all installed-lowest test test-all test-lowest test-torch test-cuda test-browser docs live gpu gpu-carry lint format clean
.DEFAULT_GOAL := demo

demo: $(VENV)/installed
	@$(BIN)/acronumba demo

test: $(VENV)/installed-test
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(TESTS) $(PYTEST)

test-all:
	@status=0; missing=; \
	for version in 3.11 3.12 3.13; do \
	    if "python$$version" -c "import venv, ensurepip" 2>/dev/null; then \
	        echo "== Python $$version"; \
	        $(MAKE) --no-print-directory test VENV=$(VENV)-$$version PYTHON=python$$version || status=1; \
	    else missing="$$missing $$version"; fi; \
	done; \
	[ -z "$$missing" ] || echo "not found, so not tested: Python$$missing"; exit $$status

# What depends on the versions of others: the tables of NumPy's functions, classes of others, files, texts.
LOWEST := tests/frontend/test_calls.py tests/frontend/test_numpy_table.py tests/data/test_classes_of_others.py \
    tests/data/test_arrow.py tests/data/test_stream.py tests/api/test_results.py tests/analysis/test_plan.py \
    tests/emit/test_cache.py tests/test_storage.py tests/test_packaging.py tests/views/test_views.py tests/cli/test_cli.py

LOWEST_MAKE = PIP_CONSTRAINT=$(CURDIR)/.ci/constraints-lowest.txt $(MAKE) --no-print-directory VENV=$(VENV)-lowest \
    PYTHON="$(LOWEST_PYTHON)"

test-lowest:
	@$(LOWEST_MAKE) test TESTS="$(LOWEST)"

installed-lowest:
	@$(LOWEST_MAKE) $(VENV)-lowest/installed-test

# What .ci/run needs beside the tests, by one run of pip.
installed-all: $(VENV)/installed-test
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,cuda,test-browser,docs,types]" \
	    "ruff>=0.11,<1"
	@touch $(VENV)/installed-cuda $(VENV)/installed-browser $(VENV)/installed-docs $(VENV)/installed-lint

# Plugins of pytest that the Python that is used has take no part.
test-torch: $(VENV)-torch/installed
	@$(VENV)-torch/bin/python -m pytest -p no:benchmark -n $(JOBS) --dist worksteal tests/torch tests/test_torch.py \
	    tests/docs/test_recipes.py $(PYTEST)

test-cuda: $(VENV)/installed-cuda
	@$(BIN)/python -m pytest -n $(JOBS) tests/kernels/test_cuda.py tests/kernels/test_cycles.py tests/bench/test_meter.py $(PYTEST)

BROWSERS := tests/views/test_explorer_browser.py tests/views/test_explorer_page.py tests/views/test_explorer_data.py \
    tests/views/test_notebook.py tests/views/test_live.py

# npm is asked for what looks at the scripts, no more; what is missing is said in the last lines, not passed over.
test-browser: $(VENV)/installed-browser
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || [ "$$(id -u)" != 0 ] || \
	    { apt-get update && apt-get install -y --no-install-recommends chromium chromium-driver; } >/dev/null 2>&1 || true
	@command -v npm >/dev/null && (cd tools/js && npm ci --silent --no-audit --no-fund >/dev/null 2>&1) || true
	@$(BIN)/python -m pytest --long $(BROWSERS) $(PYTEST)
	@if [ -d tools/js/node_modules ]; then \
	    cd tools/js && ./node_modules/.bin/tsc -p . && ./node_modules/.bin/biome lint --error-on-warnings \
	        ../live/*.js ../../acronumba/views/explorer/js; \
	else echo "NOT RUN: no npm packages; cd tools/js && npm ci"; fi
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
	    echo "NOT RUN: no Chromium; apt-get install chromium chromium-driver"; [ "$(BROWSER)" != required ]; }

# What takes time is kept in build/docs: lessons that have run, models of the gallery.
docs: $(VENV)/installed-docs
	@$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md docs acronumba examples & spelling=$$!; \
	$(BIN)/sphinx-build -q -W --keep-going -j auto -b html -d build/docs/doctrees docs build/site && \
	    $(BIN)/python docs/builder/links.py build/site; status=$$?; \
	wait $$spelling && exit $$status
	@echo "build/site/index.html"

# What npm brings is checked by the sums in package-lock.json. No other target needs any of this.
live: $(VENV)/installed
	@cd tools/live && npm ci --silent --no-audit --no-fund
	@$(BIN)/python tools/live/build.py

# With what was carried there, any Python that fits will do; else one that has everything; else one is set up (network).
gpu:
	@for python in $(PYTHON); do \
	    if [ -n "$(CARRY)" ]; then \
	        if "$$python" -c "$(VERSION)" 2>/dev/null; then \
	            exec "$$python" benchmarks/carry.py use "$(CARRY)" --json gpu.json $(ARGS); \
	        fi; \
	    elif PYTHONPATH=. "$$python" -c "import numba_cuda, cuda.core" 2>/dev/null && \
	            PYTHONPATH=. "$$python" -m acronumba doctor >/dev/null 2>&1; then \
	        PYTHONPATH=. exec "$$python" benchmarks/gpu.py --json gpu.json $(ARGS); \
	    fi; \
	done; \
	$(MAKE) --no-print-directory $(VENV)/installed-cuda && exec $(BIN)/python benchmarks/gpu.py --json gpu.json $(ARGS)

gpu-carry: $(VENV)/installed-cuda
	@test -n "$(CARRY)" || { echo "Say which folder to fill: make gpu-carry CARRY=folder" >&2; exit 1; }
	@$(BIN)/python benchmarks/carry.py make "$(CARRY)" --python $(THERE) --capability $(CAPABILITY) \
	    $(if $(NEEDS),--needs $(NEEDS)) $(ARGS)

lint: $(VENV)/installed-lint
	@status=0; $(BIN)/ruff check . || status=1; $(BIN)/mypy || status=1; $(BIN)/mypy benchmarks || status=1; \
	    $(BIN)/mypy tests/support/typed.py || status=1; \
    $(BIN)/python -m pytest -q --long tests/docs/test_types.py || status=1; exit $$status

format: $(VENV)/installed-lint
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix-only .

clean:
	rm -rf $(VENV) build dist docs/api docs/errors docs/gallery docs/command_line.md *.egg-info .pytest_cache .mypy_cache .ruff_cache

$(VENV)/created:
	@for python in $(PYTHON); do \
	    if "$$python" -c "$(FITS)" 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "None of '$(PYTHON)' is Python 3.11 to 3.13 with the venv module. Install one, or name it: make PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	fi; \
	echo "Setting up $(VENV) with $$("$$found" --version) (once)"; \
	"$$found" -m venv "$(VENV)" && touch $@

$(VENV)-torch/installed: pyproject.toml
	@for python in $(PYTHON); do \
	    if "$$python" -c "$(FITS); import torch" 2>/dev/null; then found=$$python; break; fi; \
	done; \
	"$${found:-python3}" -m venv --system-site-packages "$(VENV)-torch"
	@$(VENV)-torch/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[test,torch]"
	@touch $@

$(VENV)/installed: $(VENV)/created setup.py pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/installed-test: $(VENV)/created setup.py pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test]"
	@touch $(VENV)/installed $@

$(VENV)/installed-cuda: $(VENV)/installed-test
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,cuda,cuda-cycles]"
	@touch $@

$(VENV)/installed-browser: $(VENV)/installed-test
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,test-browser]"
	@touch $@

$(VENV)/installed-docs: $(VENV)/installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	@touch $@

$(VENV)/installed-lint: $(VENV)/installed-test
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,types]" "ruff>=0.11,<1"
	@touch $@
