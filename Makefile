# Every target makes .venv if it is missing, brings it up to date when pyproject.toml has changed, and uses it.
# Another interpreter: make test PYTHON=python3.13

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# One thread for linear algebra: the tests already run in parallel, and timings stay comparable.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1
export MPLBACKEND := Agg
# Compiled once, not again by every worker and by every command that a test starts.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-slow test-fields lint bench docs types vendor clean

help:
	@echo "make demo       a whole release: made-up hospital visits, plan, run, report"
	@echo "make test       every test, the examples of the documentation, ruff and mypy"
	@echo "make test-slow  the tests that take minutes, and every property test on new examples"
	@echo "make test-fields  the applications beside their fields' packages, in .venv-fields"
	@echo "make lint       ruff and mypy only"
	@echo "make bench      time, tightness and memory beside other packages"
	@echo "make docs       run every example of the documentation and build the site in site/"
	@echo "make types      check the types of the pages' scripts"
	@echo "make vendor     fetch the scripts of the service's pages again, and check them against their manifest"
	@echo "make clean      remove .venv, caches and build products"

# The interpreter is new enough, and the environment is there.
define environment
	@command -v $(PYTHON) >/dev/null || { echo "error: '$(PYTHON)' was not found. Install Python 3.11 or newer, or name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: Tacit needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Name a newer one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "error: '$(PYTHON) -m venv' failed; on Debian and Ubuntu install the python3-venv package" >&2; exit 1; }
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: $(VENV) was made by a Python older than 3.11; run 'make clean' and try again" >&2; exit 1; }
endef

$(VENV)/.made-dev: pyproject.toml
	$(environment)
	@echo "installing the development environment into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/.made-peers: $(VENV)/.made-dev
	@echo "installing the packages to compare with into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,peers]'
	@touch $@

$(VENV)/.made-docs: $(VENV)/.made-dev
	@echo "installing what builds the documentation into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs]'
	@touch $@

# The demonstration needs the package alone, and none of what develops it. Where that is installed already, it serves.
$(VENV)/.made-demo: pyproject.toml
	$(environment)
	@test $(VENV)/.made-dev -nt pyproject.toml || { echo "installing Tacit into $(VENV)"; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .; }
	@touch $@

demo: $(VENV)/.made-demo
	$(BIN)/tacit demo

# ruff and mypy are run by tests/test_repository.py, so this is the whole definition of done.
test: $(VENV)/.made-dev
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow"

# Hypothesis marks the tests that it draws examples for.
test-slow: $(VENV)/.made-dev
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "slow or hypothesis" --hypothesis-profile=thorough

# The packages that the applications are compared with ask for pandas 2.
.venv-fields/.made: pyproject.toml
	@test -x .venv-fields/bin/python || $(PYTHON) -m venv .venv-fields
	@.venv-fields/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,fields]'
	@touch $@

test-fields: .venv-fields/.made
	.venv-fields/bin/python -m pytest -q tests/applications

lint: $(VENV)/.made-dev
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src

bench: $(VENV)/.made-peers
	$(BIN)/python benchmarks/all.py

# Needs npm. The types of the pages' scripts, which are written in comments.
types:
	npx --yes --package typescript@5 tsc --noEmit --allowJs --checkJs --strict --target es2022 --module es2022 --moduleResolution bundler \
		--lib es2022,dom,dom.iterable src/tacit/server/static/*.js

# Needs npm. A file with another hash than the manifest's is refused.
vendor: $(VENV)/.made-dev
	$(BIN)/python tools/vendor.py

# Strict: a broken link, a page outside the navigation or a name that the reference cannot find is an error.
docs: $(VENV)/.made-docs
	$(BIN)/python -m pytest -q tests/test_docs.py tests/test_theory_map.py tests/attacks/test_index.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

clean:
	rm -rf $(VENV) .venv-fields .venv-peers build dist site tacit-demo bench-results .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
