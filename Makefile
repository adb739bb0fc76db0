# Everything lives in .venv; stamp files make a second run cheap.
#
#   make demo    set up, without machine code for loops, and train a network on handwritten digits
#   make test    set up, and run the tests of the Rust core and of the Python package
#   make test-gpu  the tests of GPUs, with Debian's software driver where there is no other (Linux)
#   make test-interop  beside JAX, PyMC, Dask, Ray and MPI, in .venv/beside; TORCH=torch: PyTorch, too
#   make test-browser  the pages and pictures in a real browser; installs Debian's if there is none
#   make site    these pages as a site in build/site, checked; SITE=--rust takes `make docs` along
#   make test-site  the notebooks in Jupyter's kernel, the site's links
#   make lint    formatting, lints, types, generated files
#   make lint-sources  that part of it which needs no compiled module
#   make lint-module  the rest
#   make wheel   one abi3 wheel in dist/
#   make wheel-gpu  the wheel cotan-wgpu in dist/: the compiled module with support for GPUs
#   make wheel-free-threaded  the wheel for free-threaded Python 3.14 in dist/; FREE_THREADED=python3.14t
#   make wheel-portable  the same as `wheel` for glibc 2.28, linked by zig (Linux)
#   make check-wheel  what dist/ asks of the C library, and how it works under an older one (Linux, root)
#   make crates  the crates as they would be published
#   make sdist   a source distribution in dist/, and a wheel built from it
#   make audit   known vulnerabilities and licences of what cotan builds and runs with
#   make fuzz    damaged files and texts for everything that is parsed; FUZZ_SECONDS=60
#   make fuzz-coverage  the same by libFuzzer, which looks for new paths (nightly Rust)
#   make miri    tests of the core under Miri (nightly Rust)
#   make sanitize  the core's tests under AddressSanitizer, those with threads under ThreadSanitizer (Linux)
#   make sbom    bills of materials in dist/
#   make doctor  python -m cotan doctor
#   make test-oldest  some tests with the oldest NumPy that is allowed
#   make test-free-threaded  the wheel for free-threaded Python, and some tests with it
#   make workflows  checks of the files in .github
#   make generate  write the files that come from the primitive table, and the notebooks
#   make bench   criterion benchmarks; the Python ones against the peers that are installed
#   make docs    the Rust API's pages
#   make fmt     format all sources

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-rust test-python test-gpu test-interop test-browser test-site test-oldest \
    test-free-threaded lint lint-sources lint-module workflows generate fmt wheel wheel-gpu wheel-portable \
    wheel-free-threaded check-wheel crates sdist sbom \
    audit fuzz fuzz-coverage miri sanitize doctor bench docs site clean

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PYTHON := $(BIN)/python
PIP := $(PYTHON) -m pip install --quiet --disable-pip-version-check --retries 5 --timeout 60
# How cargo compiles what is given to others or measured, and everything else.
PROFILE ?= release
QUICK ?= quick
# How wheels are packed: a hundredth smaller than by default.
PACKED := --compression-level 9
# Processes that share the Python tests.
WORKERS ?= 2
WHEEL_LIMIT := 10485760
# The C library that Linux wheels ask for.
GLIBC := 2.28
# All crates and features but GPUs: wgpu takes minutes to compile. `test-gpu` has those.
RUST_PARTS := --workspace --exclude cotan-wgpu --features cotan/fft,cotan/linalg,cotan/machine-code
# What is compiled for GPUs, at once with the module, so that the core is compiled once for both.
GPU_PARTS := --package cotan-wgpu --package cotan-py --all-features
TEST_OPTIONS :=
# A free-threaded Python, which does not load the module of the others.
FREE_THREADED ?= python3.14t
# What test-gpu runs once more on a device.
DEVICE ?= gpu
ON_DEVICE := $(addprefix tests/python/,primitives/test_table.py primitives/test_scans.py optim nn)
# Tests of the core without files, large arrays and long random runs: what Miri is through with in minutes.
ON_MIRI := aval:: kernels::buffer::tests kernels::finite kernels::index::tests::gathers kernels::index::tests::positions \
    kernels::index::tests::updates_of kernels::fused::tests::a_cancelled kernels::fused::tests::empty \
    kernels::fused::tests::unaligned kernels::lane::tests::complex kernels::lane::tests::huge kernels::lane::tests::tables \
    kernels::reduce::tests::empty kernels::simd_level kernels::strided::tests::concatenates \
    kernels::strided::tests::copies kernels::value_bytes kernels::view prim::
# Tests of the core that start threads.
ON_THREADS := prepared:: host:: sched:: nested:: faults::
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
ACTIONLINT := v1.7.12
FUZZ_SECONDS ?= 60
FUZZ_SEED ?= 0

RUST_SOURCES := Cargo.toml $(wildcard Cargo.lock) $(shell find rust -name '*.rs' -o -name Cargo.toml)

export PYO3_PYTHON := $(abspath $(PYTHON))
export VIRTUAL_ENV := $(abspath $(VENV))

# Libraries that the tests of test-interop meet, and what is installed there besides.
BESIDE := $(VENV)/beside
BESIDE_PYTHON := $(subst $(VENV),$(BESIDE),$(PYTHON))
BESIDE_PYTEST := $(BESIDE_PYTHON) -m pytest --no-skips --doctest-modules
TORCH :=

SITE :=
SITE_NEEDS := $(VENV)/.module $(VENV)/.extra-test $(VENV)/.extra-examples $(VENV)/.extra-interop $(VENV)/.extra-site

help:
	@sed -n 's/^#   //p' Makefile

# What the example needs is fetched while the module is compiled.
demo: $(VENV)/.build
	$(MAKE) --jobs=2 $(if $(wildcard $(VENV)/.module),$(VENV)/.module,$(VENV)/.demo-module) $(VENV)/.extra-examples
	$(PYTHON) examples/digits.py

test: test-rust test-python

test-rust:
	cargo test --profile $(QUICK) $(RUST_PARTS) $(TEST_OPTIONS)

test-python: $(VENV)/.module $(VENV)/.extra-test $(VENV)/.extra-examples $(VENV)/.extra-interop
	$(PYTHON) -m pytest -n $(WORKERS) --dist worksteal -m "not alone" --doctest-modules tests/python python/cotan
	$(PYTHON) -m pytest -m alone $$(grep -rl --include='test_*.py' pytest.mark.alone tests/python)
	COTAN_MACHINE_CODE=always $(PYTHON) -m pytest -n $(WORKERS) tests/python/api/test_prepare*.py \
	    tests/python/api/test_repeated_calls.py tests/python/api/test_loop*.py tests/python/api/test_while_equations.py \
	    tests/python/program/test_rolled.py
	COTAN_REPLAY=always $(PYTHON) -m pytest -n $(WORKERS) tests/python/program/test_user_programs.py \
	    tests/python/stdlib

# Not a part of `test`: it compiles for minutes. The module with GPUs stays apart, in build/gpu, as the wheel cotan-wgpu.
test-gpu: $(VENV)/.build $(VENV)/.module $(VENV)/.extra-test
	@ls /usr/share/vulkan/icd.d/*.json > /dev/null 2>&1 \
	    || { apt-get update -q && apt-get install -yq --no-install-recommends libvulkan1 mesa-vulkan-drivers; }
	cargo clippy $(GPU_PARTS) --all-targets --profile $(QUICK) -- -D warnings
	cargo test --profile $(QUICK) $(GPU_PARTS)
	rm -rf build/gpu
	$(BIN)/maturin build --quiet --profile $(QUICK) --features wgpu --out build/gpu
	$(PYTHON) tools/gpu_wheel.py --out build/gpu/extra build/gpu/*.whl
	$(PIP) --no-deps --target build/gpu/site build/gpu/extra/*.whl
	PYTHONPATH=build/gpu/site $(PYTHON) -c 'import cotan; cotan.device("$(DEVICE)")'
	PYTHONPATH=build/gpu/site $(PYTHON) -m pytest -p no:cacheprovider tests/python/api/test_devices*.py
	PYTHONPATH=build/gpu/site $(PYTHON) -m pytest -p no:cacheprovider -n $(WORKERS) -m "not slow and not alone" \
	    --device $(DEVICE) $(ON_DEVICE)
	PYTHONPATH=build/gpu/site $(PYTHON) examples/digits.py --device $(DEVICE) --epochs 3 --out build/gpu/digits.png

# Not a part of `test`: what has threads that do not survive forks, or is large, stays out of $(VENV),
# and each has a process of its own. There, nothing may be skipped.
test-interop: $(VENV)/.module $(VENV)/.extra-test $(VENV)/.extra-examples $(VENV)/.extra-interop $(BESIDE)/.installed
	$(BESIDE_PYTEST) tests/python/interop/test_jax.py python/cotan/jax.py python/cotan/_src/interop/jax_*.py \
	    tests/python/interop/test_samplers.py
	$(BESIDE_PYTEST) tests/python/pytensor_op python/cotan/pytensor.py python/cotan/_src/pytensor
	$(BESIDE_PYTEST) -n $(WORKERS) --dist loadfile --timeout 300 tests/python/parallel python/cotan/parallel.py python/cotan/_src/parallel
	$(if $(TORCH),$(BESIDE_PYTEST) tests/python/interop/test_torch.py python/cotan/torch.py \
	    python/cotan/_src/interop/torch_*.py tests/python/docs/test_coming_from.py)

# Not a part of `test`: it needs a browser.
test-browser: $(SITE_NEEDS)
	@command -v chromium chromium-browser google-chrome > /dev/null \
	    || { apt-get update -q && apt-get install -yq --no-install-recommends chromium; }
	$(PYTHON) -m pytest tests/browser

# Not a part of `test`, either: it builds the site, and starts a kernel for each notebook.
test-site: $(SITE_NEEDS)
	$(PYTHON) -m pytest tests/site

lint: lint-sources lint-module

# What needs no compiled module, the cheapest first.
lint-sources: $(VENV)/.extra-lint $(VENV)/.extra-test
	cargo fmt --all --check
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	cargo clippy $(RUST_PARTS) --all-targets -- -D warnings
	cargo clippy --package cotan --all-targets -- -D warnings

lint-module: $(VENV)/.module $(VENV)/.extra-lint $(VENV)/.extra-test
	$(PYTHON) tools/generate.py --check
	$(PYTHON) -m mypy.stubtest --allowlist tools/stubtest.txt cotan._core

generate: $(VENV)/.module $(VENV)/.extra-lint $(VENV)/.extra-test
	$(PYTHON) tools/generate.py
	$(PYTHON) tools/notebooks.py

wheel: $(VENV)/.build
	rm -rf dist
	$(BIN)/maturin build --quiet --profile $(PROFILE) $(PACKED) --out dist
	@for wheel in dist/*.whl; do \
	    size=$$(wc -c < $$wheel); echo "$$wheel: $$size bytes"; \
	    test $$size -le $(WHEEL_LIMIT) || { echo "larger than $(WHEEL_LIMIT) bytes"; exit 1; }; \
	done

wheel-gpu: $(VENV)/.build
	rm -rf build/gpu
	$(BIN)/maturin build --quiet --profile $(PROFILE) $(PACKED) --features wgpu --out build/gpu
	$(PYTHON) tools/gpu_wheel.py --out dist build/gpu/*.whl

# Beside the wheel of the others, if that is there.
wheel-free-threaded: $(VENV)/.build
	rm -f dist/cotan-*-cp314t-*.whl
	$(BIN)/maturin build --quiet --profile $(PROFILE) $(PACKED) --interpreter $(FREE_THREADED) --out dist

wheel-portable: $(VENV)/.build $(VENV)/.extra-release
	rm -rf dist
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/maturin build --quiet --profile $(PROFILE) $(PACKED) --zig \
	    --compatibility manylinux_$(subst .,_,$(GLIBC)) --out dist
	$(PYTHON) tools/glibc.py --at-most $(GLIBC) dist/*.whl

# Debian 11 is kept in build/old; without root the versions of the symbols are all that is looked at.
check-wheel: $(VENV)/.extra-release
	$(PYTHON) tools/glibc.py --at-most $(GLIBC) dist/*.whl
	$(BIN)/auditwheel show dist/*.whl
	@if [ "$$(id -u)" = 0 ]; then tools/old_glibc.sh build/old dist/*.whl; \
	    else echo "not root: not tried under an older C library"; fi

crates:
	cargo publish --workspace --all-features --dry-run --no-verify --allow-dirty

# The wheel is built from the unpacked files alone, with the same target folder.
sdist: $(VENV)/.build
	rm -rf dist
	$(BIN)/maturin sdist --out dist
	rm -rf target/sdist && mkdir -p target/sdist
	tar xzf dist/*.tar.gz -C target/sdist --strip-components 1
	cd target/sdist && CARGO_TARGET_DIR=$(abspath target) \
	    $(abspath $(BIN))/maturin build --quiet --locked --profile $(PROFILE) --out ../sdist-wheel
	$(PYTHON) -m venv --clear target/sdist-venv
	target/sdist-venv/bin/python -m pip install --quiet --disable-pip-version-check target/sdist-wheel/*.whl
	cd target/sdist-venv && bin/python -m cotan doctor

audit: $(VENV)/.extra-release
	@command -v cargo-deny > /dev/null || cargo install --locked cargo-deny
	cargo deny --all-features check
	$(BIN)/pip-audit --requirement <($(PYTHON) -c 'import tomllib; \
	    project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	    print(*project["dependencies"], *project["optional-dependencies"]["onnx"], sep="\n")')

fuzz: $(VENV)/.module
	$(PYTHON) tools/fuzz.py --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

# Inputs that lead somewhere new are kept in fuzz/corpus, those that break something in fuzz/artifacts.
fuzz-coverage:
	@command -v cargo-fuzz > /dev/null || cargo install --locked cargo-fuzz
	mkdir -p fuzz/corpus/load fuzz/corpus/text
	cargo +nightly fuzz run load fuzz/corpus/load tests/data/saved -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=4096
	cargo +nightly fuzz run text fuzz/corpus/text tests/snapshots -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=4096

# Tree borrows: crossbeam, below rayon, breaks the rules of stacked ones.
miri:
	MIRIFLAGS="-Zmiri-tree-borrows -Zmiri-permissive-provenance -Zmiri-disable-isolation" \
	    cargo +nightly miri test --package cotan --lib -- $(ON_MIRI)

# A stable compiler takes the options by RUSTC_BOOTSTRAP. To see races, the standard library is compiled, too.
sanitize:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
	    cargo test --package cotan --all-features --lib --test core --target $(HOST) --target-dir target/sanitize
	rustup component add rust-src
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread" TSAN_OPTIONS=allocator_may_return_null=1 \
	    cargo test -Zbuild-std --package cotan --all-features --test core --target $(HOST) --target-dir target/sanitize-threads \
	    -- $(ON_THREADS)

doctor: $(VENV)/.module
	$(PYTHON) -m cotan doctor

# In an environment of its own: the lowest versions that pyproject.toml allows, of SciPy too, and those tests that
# need nothing else.
test-oldest: $(VENV)/.build
	$(PYTHON) -m venv --clear target/oldest
	target/oldest/bin/python -m pip install --quiet --disable-pip-version-check pytest pytest-timeout hypothesis \
	    $$($(PYTHON) -c 'import tomllib; \
	    project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	    scipy = [x for x in project["optional-dependencies"]["examples"] if x.startswith("scipy")]; \
	    print(*(x.replace(">=", "==") + ".*" for x in project["dependencies"] + scipy))') .
	target/oldest/bin/python -m pytest -q tests/python/array tests/python/numpy tests/python/program

# In an environment of its own, which has no sources of the package on its path.
test-free-threaded: wheel-free-threaded
	$(FREE_THREADED) -m venv --clear target/free-threaded
	target/free-threaded/bin/python -m pip install --quiet --disable-pip-version-check pytest pytest-timeout hypothesis \
	    scipy dist/cotan-*-cp314t-*.whl
	target/free-threaded/bin/python examples/seed.py
	target/free-threaded/bin/python -m pytest -q $(addprefix tests/python/,array numpy program interpose robustness runtime)

sbom: $(VENV)/.extra-release
	@command -v cargo-cyclonedx > /dev/null || cargo install --locked cargo-cyclonedx
	mkdir -p dist
	cargo cyclonedx --format json --all-features --manifest-path rust/py/Cargo.toml --override-filename cotan-rust.cdx
	mv rust/py/cotan-rust.cdx.json dist
	$(BIN)/cyclonedx-py requirements --output-file dist/cotan-python.cdx.json --of JSON <($(PYTHON) -c 'import tomllib; \
	    print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")')
	rm -f rust/*/*.cdx.json *.cdx.json

workflows: $(VENV)/.extra-release
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms \
	    $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	@if command -v actionlint > /dev/null; then actionlint; \
	    elif command -v go > /dev/null; then go run github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT); \
	    else echo "neither actionlint nor Go is installed: expressions and scripts were not checked"; fi

bench: $(VENV)/.measured
	cargo bench
	$(PYTHON) benches/python/record.py
	$(PYTHON) benches/python/seed.py

docs:
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps

# `SITE="--version 0.1 --url https://..."` builds a release beside the others; with `--rust` the pages
# of `make docs` are copied in.
site: $(SITE_NEEDS)
	$(if $(findstring --rust,$(SITE)),$(MAKE) docs)
	$(PYTHON) tools/site/build.py $(SITE)
	$(PYTHON) tools/site/check.py

fmt: $(VENV)/.extra-lint
	cargo fmt --all
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	cargo clean
	rm -rf $(VENV) dist build .hypothesis .mypy_cache .pytest_cache .ruff_cache python/cotan/_core*.so
	find python tests examples benches -name __pycache__ -prune -exec rm -rf {} +

# The first Python of 3.11 or later that can make a virtual environment.
$(VENV)/.python:
	@for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
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

# What $(VENV) has can be imported there, too; what differs is installed over it.
$(BESIDE)/.installed: $(VENV)/.python $(VENV)/.module pyproject.toml
	$(PYTHON) -m venv $(BESIDE)
	$(PYTHON) -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	    > $$($(BESIDE_PYTHON) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/cotan_tests.pth
	$(subst $(PYTHON),$(BESIDE_PYTHON),$(PIP)) $(if $(TORCH),$(TORCH) autograd) $$($(PYTHON) -c 'import tomllib; \
	    extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
	    print(*extras["beside"], *extras["parallel"])')
	@touch $@

# An editable install: Python sources are used as they are, only Rust has to be built again.
$(VENV)/.module: $(VENV)/.build $(RUST_SOURCES)
	$(BIN)/maturin develop --quiet --profile $(QUICK)
	@rm -f $(VENV)/.measured
	@touch $@

# Without the code generator, a quarter of what there is to compile: what prepared loops over single numbers gain by it
# is all that is missing.
$(VENV)/.demo-module: $(VENV)/.build $(RUST_SOURCES)
	$(BIN)/maturin develop --quiet --profile $(QUICK) --no-default-features --features fft,linalg
	@touch $@

# The module as the wheel has it, in the place of the one before.
$(VENV)/.measured: $(VENV)/.build $(RUST_SOURCES)
	$(BIN)/maturin develop --quiet --profile $(PROFILE)
	@touch $(VENV)/.module $@
