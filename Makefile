# Every command sets up what it needs, in .venv; a second call finds it there.

BASE_PYTHON ?= python3
VENV := .venv
PYTHON := $(VENV)/bin/python
RUNTIME := $(VENV)/.runtime-installed
DEV := $(VENV)/.dev-installed
CHECKED := src tests tools $(wildcard benchmarks examples)
# Material for MkDocs is maintained until May 2027 and says so at every build; docs/log.md has it.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs
PYTEST := OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n auto --dist loadgroup

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-gpu metrics missing format docs site wheel clean
.NOTPARALLEL:

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(RUNTIME)  ## train on data that comes with the package and leave a report
	@$(VENV)/bin/allotment demo

test: $(DEV)  ## run every check that CI runs
	@echo "Linting (ruff check)."
	@$(PYTHON) -m ruff check $(CHECKED)
	@echo "Checking the format (ruff format)."
	@$(PYTHON) -m ruff format --check $(CHECKED)
	@echo "Checking the types (mypy, strict)."
	@$(PYTHON) -m mypy $(CHECKED)
	@echo "Running the tests and the examples of docstrings and pages (pytest)."
	@$(PYTEST)
	@echo "Building the documentation site (mkdocs, strict)."
	@$(MKDOCS) build

test-slow: $(DEV)  ## run the slow tests, and list how long each took
	@$(PYTEST) --runslow -m slow --durations=0 --durations-min=0

test-gpu:  ## run the tests on a GPU, with the Python that is there, and keep their result
	PYTHONPATH=src:$(PYTHONPATH) $(BASE_PYTHON) -m tools.gpu_tests

metrics: $(RUNTIME)  ## measure the code: import chains, complexity, sizes, the way of one `fit`
	@$(PYTHON) -m tools.metrics

missing: $(RUNTIME)  ## list the declared runs that results/ lacks, and their commands
	@$(PYTHON) -m tools.missing

format: $(DEV)  ## format the code and repair what the linter can
	@$(PYTHON) -m ruff check --fix $(CHECKED)
	@$(PYTHON) -m ruff format $(CHECKED)

docs: $(RUNTIME)  ## write the generated pages anew, from the kept records and the source
	@$(PYTHON) -m allotment docs
	@$(PYTHON) -m tools.contributing

site: $(DEV)  ## build the documentation site into build/site
	@$(MKDOCS) build
	@echo "Open build/site/index.html."

wheel:  ## build wheel and sdist into dist, and try the wheel in an empty environment
	@$(BASE_PYTHON) -m tools.try_wheel

clean:  ## remove the environment and the caches; runs stay
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache build dist src/*.egg-info
	find $(CHECKED) -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp says that an installation reached its end. Each installation takes the stamps away first,
# and an environment without any is made anew, so that nothing half-installed is ever used.
define install
	@$(BASE_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "allotment needs Python 3.11 or newer. Found: $$($(BASE_PYTHON) --version 2>/dev/null || echo none)." \
	    "Another can be named: make $(MAKECMDGOALS) BASE_PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Installing $(1) into $(VENV) (1 to 3 minutes the first time, mostly torch)."
	@test -e $(RUNTIME) || $(BASE_PYTHON) -m venv --clear $(VENV)
	@rm -f $(RUNTIME) $(DEV)
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(PYTHON) -m pip install -qq -c constraints.txt -e '$(2)'
	@touch $(RUNTIME)
endef

$(RUNTIME): pyproject.toml constraints.txt
	$(call install,allotment and what it runs on,.)

$(DEV): pyproject.toml constraints.txt
	$(call install,allotment and what its tests need,.[dev])
	@touch $@
