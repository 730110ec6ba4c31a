# Every target makes its own .venv from a bare Python >= 3.11; uv is used when it is there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-exhaustive test-peers coverage mutation check docs wheel bench bench-peers clean

demo: $(VENV)/.installed  ## watch two sub-agents find a bug; no key needed
	@$(BIN)/toolnexus demo $(ARGS)

test: $(VENV)/.dev  ## the tests
	@echo "toolnexus: running the tests (about two minutes on two cores)"
	@$(BIN)/python -m pytest -n 5 --dist worksteal $(ARGS)

test-exhaustive: $(VENV)/.dev  ## the tests that play every point, or inputs by the thousand
	@echo "toolnexus: running the exhaustive tests (under a minute on two cores)"
	@$(BIN)/python -m pytest -m exhaustive -n 4 --dist worksteal $(ARGS)

test-peers: $(VENV)/.dev  ## with what others have made; installs it into the user's cache, skips what it cannot
	@echo "toolnexus: running the tests with programs of others (two minutes, with what is to be installed)"
	@$(BIN)/python -m pytest tests/peers -m peers -rs $(ARGS)

coverage: $(VENV)/.dev  ## that the tests run every branch of engine/ and runtime/
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 12) and "this needs a $(VENV) of Python 3.12 or newer")'
	@echo "toolnexus: running the tests under watch (about six minutes on two cores)"
	@rm -rf build/coverage && mkdir -p build/coverage
	@$(BIN)/coverage run -m pytest -m 'not peers' -n 3 --dist worksteal $(ARGS) || echo "toolnexus: make test judges the tests"
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report

check: $(VENV)/.dev  ## ruff and pyright strict
	@echo "toolnexus: checking style and types"
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/pyright --pythonpath $(BIN)/python

docs: $(VENV)/.docs  ## the site, site/index.html; a dead link is an error
	@echo "toolnexus: building the site (a few seconds)"
	@rm -rf site
	@$(BIN)/sphinx-build -q -E -W --keep-going -d build/doctrees docs site
	@echo site/index.html

wheel: $(VENV)/.dev  ## dist/*.whl
	@echo "toolnexus: building the wheel"
	@rm -rf dist
	@$(BIN)/python -m build --wheel --outdir dist . >/dev/null
	@ls dist

bench: $(VENV)/.dev  ## our figures beside a hand-written loop
	@echo "toolnexus: measuring against a hand-written loop (seven to ten minutes)"
	@$(BIN)/python -m benchmarks.run $(ARGS)

mutation: $(VENV)/.dev  ## small changes of engine/ and runtime/ that no test notices
	@echo "toolnexus: mutating engine/ and runtime/ (an hour at most; ARGS=--minutes=10 for less)"
	@$(BIN)/python -m tests.mutation $(ARGS)

bench-peers: $(VENV)/.dev  ## beside other packages too; installs each into the user's cache
	@echo "toolnexus: measuring beside other packages (about twenty-five minutes, and five more to install them once)"
	@$(BIN)/python -m benchmarks.peers $(ARGS)

clean:
	rm -rf $(VENV) dist build site .pytest_cache .ruff_cache

$(VENV)/bin/python:
	@echo "toolnexus: making $(VENV)"
	@if command -v uv >/dev/null 2>&1; then uv venv -q --seed --python '>=3.11' $(VENV); else \
	  for p in $(PYTHON) python3.13 python3.12 python3.11 python3.14; do \
	    $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && exec $$p -m venv $(VENV); done; \
	  echo "toolnexus needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=/path/to/python"; exit 1; fi

$(VENV)/.installed: EXTRAS := cli
$(VENV)/.dev: EXTRAS := cli,dev
$(VENV)/.docs: EXTRAS := docs
$(VENV)/.installed $(VENV)/.dev $(VENV)/.docs: $(VENV)/bin/python pyproject.toml
	@echo "toolnexus: installing [$(EXTRAS)] (about a minute, once)"
	@if command -v uv >/dev/null 2>&1; then uv pip install -q --python $(BIN)/python -e '.[$(EXTRAS)]'; \
	else $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[$(EXTRAS)]'; fi
	@touch $@
