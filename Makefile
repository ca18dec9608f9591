# `make run` and `make test` do all their set-up themselves.
PYTHON ?= python3.11
VENV   ?= .venv
BIN    := $(VENV)/bin
SHELL  := /bin/bash
.SHELLFLAGS := -euo pipefail -c

.PHONY: help run install test test-install system-packages lint check demo-corpus demo-run goldens bench clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

run: install  ## install what is needed and serve the page
	$(BIN)/python app.py

# LIGHT=1 leaves torch and open_clip out (CLIP then says that it is not installed).
ifdef LIGHT
REQUIREMENTS := <(grep -vE '^(torch|torchvision|open_clip_torch)==' requirements.txt)
INSTALLED := $(VENV)/.installed-light
else
REQUIREMENTS := requirements.txt
INSTALLED := $(VENV)/.installed
endif

install: $(INSTALLED)

$(INSTALLED): requirements.txt
	@command -v $(PYTHON) >/dev/null || { echo "Fusebox needs Python 3.11: install it, or name one: make PYTHON=/path/to/python3.11 run" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(REQUIREMENTS)
	touch $@

test-install: install $(VENV)/.test-installed

$(VENV)/.test-installed: requirements.txt requirements-test.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt -r requirements-test.txt
	touch $@

system-packages:
	@bash tests/system_packages.sh

# Two files at a time; a file's tests stay together, as they share what is dear to make.
PYTEST_ARGS ?= -n 2 --dist loadfile
test: system-packages test-install lint  ## lint and run every test
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: test-install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

demo-corpus: install  ## rebuild assets/corpora/demo from assets/documents
	$(BIN)/python -m rag ingest assets/documents --kind pdf --name demo --out assets/corpora/demo --overwrite

demo-run: install  ## run the demo questions through the four systems anew: assets/runs
	rm -rf build/demo-run
	$(BIN)/python -m rag evaluate --label "demo questions, embedded reader" --out build/demo-run --export assets/runs/demo-extractive.sqlite

goldens: test-install  ## write the golden traces anew (look at the difference before committing)
	FUSEBOX_REGENERATE_GOLDENS=1 $(BIN)/python -m pytest tests/test_goldens.py || true
	git diff --stat -- tests/goldens

bench: install  ## time every stage
	$(BIN)/python -m rag bench

clean:
	rm -rf $(VENV) tests/output build
