# Everything lives in .venv; stamp files make a second run cheap.
#
#   make demo    set up, and train a network on handwritten digits
#   make test    set up, and run the tests of the Rust core and of the Python package
#   make test-browser  the pages and pictures in a real browser; installs Debian's if there is none
#   make lint    formatting, lints, types, generated files
#   make wheel   one abi3 wheel in dist/
#   make generate  write the files that come from the primitive table
#   make bench   criterion benchmarks; the Python ones against the peers that are installed
#   make docs    the Rust API's pages
#   make fmt     format all sources

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-rust test-python test-browser lint generate wheel bench docs fmt clean

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
PIP := $(PYTHON) -m pip install --quiet --disable-pip-version-check --retries 5 --timeout 60
PROFILE ?= release
WHEEL_LIMIT := 10485760

RUST_SOURCES := Cargo.toml $(wildcard Cargo.lock) $(shell find rust -name '*.rs' -o -name Cargo.toml)

export PYO3_PYTHON := $(abspath $(PYTHON))
export VIRTUAL_ENV := $(abspath $(VENV))

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/.module $(VENV)/.extra-examples
	$(PYTHON) examples/digits.py

test: test-rust test-python

test-rust:
	cargo test --workspace --all-features

test-python: $(VENV)/.module $(VENV)/.extra-test $(VENV)/.extra-examples $(VENV)/.extra-interop
	$(PYTHON) -m pytest --doctest-modules tests/python python/cotan

# Not a part of `test`: it needs a browser.
test-browser: $(VENV)/.module $(VENV)/.extra-test
	@command -v chromium chromium-browser google-chrome > /dev/null \
	    || { apt-get update -q && apt-get install -yq --no-install-recommends chromium; }
	$(PYTHON) -m pytest tests/browser

lint: $(VENV)/.module $(VENV)/.extra-lint $(VENV)/.extra-test
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features -- -D warnings
	cargo clippy --package cotan --all-targets -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(PYTHON) tools/generate.py --check
	$(PYTHON) -m mypy.stubtest --allowlist tools/stubtest.txt cotan._core

generate: $(VENV)/.module $(VENV)/.extra-lint $(VENV)/.extra-test
	$(PYTHON) tools/generate.py

wheel: $(VENV)/.build
	rm -rf dist
	$(BIN)/maturin build --quiet --profile $(PROFILE) --out dist
	@for wheel in dist/*.whl; do \
	    size=$$(wc -c < $$wheel); echo "$$wheel: $$size bytes"; \
	    test $$size -le $(WHEEL_LIMIT) || { echo "larger than $(WHEEL_LIMIT) bytes"; exit 1; }; \
	done

bench: $(VENV)/.module
	cargo bench
	$(PYTHON) benches/python/record.py
	$(PYTHON) benches/python/seed.py

docs:
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps

fmt: $(VENV)/.extra-lint
	cargo fmt --all
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	cargo clean
	rm -rf $(VENV) dist .hypothesis .mypy_cache .pytest_cache .ruff_cache python/cotan/_core*.so
	find python tests examples benches -name __pycache__ -prune -exec rm -rf {} +

# The first Python of 3.11 or later that can make a virtual environment.
$(VENV)/.python:
	@for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	    if $$python -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "$(VENV): $$($$python --version)"; \
	        $$python -m venv --clear $(VENV) && touch $@ && exit 0; \
	    fi; \
	done; \
	echo "cotan needs Python 3.11 or later, with the venv module" >&2; exit 1

# What builds the module: the requirements of [build-system].
$(VENV)/.build: $(VENV)/.python pyproject.toml
	$(PIP) $$($(PYTHON) -c 'import tomllib; \
	    print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])')
	@touch $@

# The requirements of one extra, without the package itself.
$(VENV)/.extra-%: $(VENV)/.python pyproject.toml
	$(PIP) $$($(PYTHON) -c 'import sys, tomllib; \
	    print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["$*"])')
	@touch $@

# An editable install: Python sources are used as they are, only Rust has to be built again.
$(VENV)/.module: $(VENV)/.build $(RUST_SOURCES)
	$(BIN)/maturin develop --quiet --profile $(PROFILE)
	@touch $@
