# Every target does its own set-up: a virtual environment in .venv with pinned dependencies, and the native build.
PYTHON ?= python3
TIER ?= quick
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := harness,opencl,fpga,cosim,cluster,why,test,lint,docs
PIP := $(BIN)/pip install --quiet --constraint constraints.txt
NATIVE_SOURCES := CMakeLists.txt pyproject.toml cmake/box2d.cmake $(shell find primitives harness -name '*.cpp' -o -name '*.hpp' -o -name '*.h')
CPP_SOURCES := $(shell find primitives harness tests -name '*.cpp' -o -name '*.hpp' -o -name '*.h')
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: FORCE help install test test-slow test-long test-all baselines asv benchmark fuzz sanitize check-arm bench-replay bench-learner bench-quantization reproduce learn lint format clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(VENV)/build-tools: constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "PlaceRL needs Python 3.11 or newer, found " + sys.version.split()[0] + "; set PYTHON=/path/to/python3.11")'
	test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)
	$(PIP) torch numpy scikit-build-core nanobind cmake ninja
	touch $@

# An editable installation knows the modules by name: it is made again when one comes or goes.
$(VENV)/modules: $(VENV)/build-tools FORCE
	@find src primitives harness -name '*.py' | sort > $@.new; if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

# torch is named again so that no resolver exchanges the installed build for another one.
$(VENV)/installed: $(VENV)/build-tools $(VENV)/modules $(NATIVE_SOURCES)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) --no-build-isolation torch --editable '.[$(EXTRAS)]'
	touch $@

install: $(VENV)/installed  ## set up .venv: pinned dependencies and the native build

# A file's tests share what they set up, so that a file goes to one process, the longest first (tests/conftest.py).
# More than eight would wait for each other's memory and for the longest file.
TEST_PROCESSES ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n > 8 ? 8 : n)))
PYTEST = $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder
SLOW = $(PYTEST) -m 'slow and not long and not gpu' --durations=30

test: install  ## install what the tests need and pass them (15 to 30 minutes on 2 cores)
	rm -rf build/outcomes
	PLACERL_OUTCOMES=build/outcomes $(PYTEST) -m 'not slow and not gpu' -p tests.harness.papers.given_outcomes
	$(BIN)/python -m tests.harness.papers.given_outcomes build/outcomes

test-slow: install  ## the tests that take longer than `make test` allows
	$(SLOW)

# Halves of these, for machines that run them at the same time.
.PHONY: test-slow-primitives test-slow-rest
test-slow-primitives: install
	$(SLOW) tests/primitives

test-slow-rest: install
	$(SLOW) tests --ignore tests/primitives

test-long: install  ## the tests that take longer than CI allows: whole accelerators at the papers' sizes
	$(PYTEST) -m 'long and not gpu'

test-all: test test-slow test-long  ## every test that needs no GPU

# .venv has the oldest Python that is supported, or another that was named; this is the newest one here, with a wheel of
# the package and what sum trees and replays need. Their tests run in a copy, so that they find the wheel's modules.
NEWEST := .venv-newest
NEWEST_PYTHON ?= $(shell for minor in 15 14 13 12; do \
	PYENV_VERSION=3.$$minor python3.$$minor -c 'import sys; print(sys.executable)' 2>/dev/null && break; done)

.PHONY: test-newest newest-tests
test-newest:  ## test a wheel for the newest Python that is installed, with sum trees and replays
	$(if $(NEWEST_PYTHON),$(MAKE) --no-print-directory newest-tests NEWEST_PYTHON=$(NEWEST_PYTHON),@echo "no Python newer than 3.11 was found: none tested")

newest-tests:
	$(NEWEST_PYTHON) -m venv --clear $(NEWEST)
	$(NEWEST)/bin/pip install --quiet --constraint constraints.txt numpy scikit-build-core nanobind cmake ninja
	rm -rf build/newest && mkdir -p build/newest && cp -r tests pyproject.toml build/newest/
	PATH="$(CURDIR)/$(NEWEST)/bin:$$PATH" $(NEWEST)/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/newest .
	$(NEWEST)/bin/pip install --quiet --constraint constraints.txt "$$(ls build/newest/*.whl)[opencl,fpga,test]" scipy psutil pydantic
	cd build/newest && PLACERL_CACHE="$(CURDIR)/build/cache" ../../$(NEWEST)/bin/python -m pytest -n $(TEST_PROCESSES) --dist loadfile -m 'not slow and not gpu' \
		tests/primitives/sum_tree tests/primitives/replay --ignore tests/primitives/replay/adapters

# Material's notice on the future of MkDocs is no warning about the pages.
.PHONY: docs
docs: install  ## the site of the pages in docs/, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# The card of this machine and the times of some workloads' pieces, measured now. A store of their own holds no other run.
MACHINE_WORKLOADS ?= cartpole-dqn cartpole-ddpg cartpole-ppo pendulum-sac pendulum-td3 mountaincar-ddpg hopper-ddpg halfcheetah-sac lunarlander-dqn
MEASURED := build/machine

.PHONY: machine
machine: install  ## a bundle of this machine in results/machines, measured in 6 minutes: NAME=amd-zen3-2-cores
	@test -n "$(NAME)" || { echo "machine: NAME is missing: make machine NAME=amd-zen3-2-cores" >&2; exit 2; }
	rm -rf $(MEASURED)
	$(BIN)/placerl card -o $(MEASURED)/card.json
	for workload in $(MACHINE_WORKLOADS); do $(BIN)/placerl profile $$workload --results $(MEASURED) || exit 1; done
	$(BIN)/placerl bundle --card $(MEASURED)/card.json --results $(MEASURED) -o results/machines/$(NAME).json

MEMORY := address,undefined
# A build of the C++ tests and both extensions with some sanitizers ($(1)), and a run of the tests.
define sanitized
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B build/sanitize-$(1) -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
		-DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" -DPLACERL_NATIVE_TESTS=ON -DPLACERL_SANITIZE=$(1)
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/sanitize-$(1) --target native_tests _native _experiments
	PATH="$(CURDIR)/$(BIN):$$PATH" UBSAN_OPTIONS=print_stacktrace=1 ctest --test-dir build/sanitize-$(1) --output-on-failure
endef

# The tests are followed by both extensions in Python, with gcc's runtime preloaded: AddressSanitizer looks up the C++
# library's exceptions when it starts, so that this library comes with it. Python's own allocator would hide its small
# blocks, and Python frees not all when it ends, which is no leak of these extensions.
.PHONY: sanitize-tools sanitize-thread sanitize-address
sanitize: sanitize-thread sanitize-address  ## the C++ tests and the bindings under ThreadSanitizer, AddressSanitizer and UndefinedBehaviorSanitizer
	@echo "sanitize: the C++ tests and the bindings passed under: thread $(MEMORY)"

sanitize-tools: install
	@for runtime in libtsan libasan libubsan; do test -e "$$(g++ -print-file-name=$$runtime.so)" || { \
		echo "sanitize: $$runtime is missing: apt install g++" >&2; exit 1; }; done
	@command -v addr2line >/dev/null || { echo "sanitize: addr2line is missing: apt install binutils" >&2; exit 1; }

sanitize-thread: sanitize-tools  ## of these, ThreadSanitizer alone
	$(call sanitized,thread)
	LD_PRELOAD="$$(g++ -print-file-name=libtsan.so)" TSAN_OPTIONS=history_size=4 OMP_NUM_THREADS=2 \
		$(BIN)/python -m tests.sanitize.driver build/sanitize-thread

sanitize-address: sanitize-tools  ## of these, AddressSanitizer and UndefinedBehaviorSanitizer alone
	$(call sanitized,$(MEMORY))
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" PYTHONMALLOC=malloc \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 OMP_NUM_THREADS=2 \
		$(BIN)/python -m tests.sanitize.driver build/sanitize-$(MEMORY)

# The C++ and both extensions for ARM; the tests run under emulation. NumPy's wheel for ARM is unpacked for its headers
# and its library for C. The emulator keeps the memory order of the machine that runs it, so that it shows no race.
ARM := build/aarch64
ARM_WHEEL := --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 --only-binary=:all: --no-deps

check-arm: $(VENV)/build-tools  ## the C++ for ARM, cross-compiled, and its tests under emulation (3 minutes)
	@for program in aarch64-linux-gnu-g++ qemu-aarch64; do command -v $$program >/dev/null || { \
		echo "check-arm: $$program is missing: apt install g++-aarch64-linux-gnu qemu-user" >&2; exit 1; }; done
	test -d $(ARM)/numpy || $(PIP) --target $(ARM)/numpy $(ARM_WHEEL) numpy
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B $(ARM)/native -G Ninja --toolchain cmake/aarch64.cmake \
		-DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" -DPLACERL_NATIVE_TESTS=ON \
		-DPython_NumPy_INCLUDE_DIR="$(CURDIR)/$(ARM)/numpy/numpy/_core/include"
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build $(ARM)/native
	PATH="$(CURDIR)/$(BIN):$$PATH" ctest --test-dir $(ARM)/native --output-on-failure

$(VENV)/bench-installed: $(VENV)/installed
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) --no-build-isolation torch --editable '.[$(EXTRAS),bench]'
	touch $@

benchmark: $(VENV)/bench-installed  ## every primitive on every backend under pytest-benchmark
	$(BIN)/python -m pytest tests/harness/cli/bench/speed_of_primitives.py

asv: $(VENV)/bench-installed  ## the last two commits compared; fails on a regression
	$(BIN)/placerl bench asv

$(VENV)/mutation-installed: $(VENV)/installed
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) --no-build-isolation torch --editable '.[$(EXTRAS),mutation]'
	touch $@

# Without FILES: the mapping strategies, the runtime and what else its script lists; hours of processor time.
.PHONY: mutants
mutants: $(VENV)/mutation-installed  ## can the tests of FILES fail? Mutants killed, PLACES (40) of each file
	$(BIN)/python tests/mutation/mutants.py --places $(or $(PLACES),40) $(FILES)

# Two at a time: what takes longest first.
FUZZ := test_store_files test_toml_files test_worker_protocol test_hostile_store
.PHONY: $(FUZZ:%=fuzz-%)
fuzz: install  ## hostile files and lines, EXAMPLES (100000) of each kind
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target --keep-going $(FUZZ:%=fuzz-%)

$(FUZZ:%=fuzz-%): fuzz-%:
	PLACERL_FUZZ_EXAMPLES=$(or $(EXAMPLES),100000) $(BIN)/python -m pytest -p no:cacheprovider --durations=0 tests/fuzz/$*.py

baselines: install  ## build the environments of all baselines; one that fails stops no other
	$(BIN)/placerl baselines all

# Does not install: that takes a network. GPU_PYTHON is an interpreter that has the extras gpu, harness and test; the
# environment of SB3, which the quick tier compares with, is built before.
# The parts are targets of their own for a machine that is available only for minutes at a time; what a part has measured stays.
GPU_PYTHON ?= $(BIN)/python
GPU_OUT = $(or $(OUT),results/gpu-check)
GPU_PARTS := gpu-tests gpu-replay gpu-reproduce gpu-validate
.PHONY: gpu-check gpu-device $(GPU_PARTS)
gpu-check:  ## every GPU test and measurement, without a network: a run in the folder OUT, for `placerl merge`
	$(MAKE) --no-print-directory --jobs=1 --keep-going $(GPU_PARTS)

gpu-device:
	$(GPU_PYTHON) -c 'import sys, torch; sys.exit(None if torch.cuda.is_available() else "$(MAKECMDGOALS) needs a CUDA device; PyTorch sees none")'
	mkdir -p $(GPU_OUT)

# What a GPU that is at hand for minutes decides: placerl's own cells first, each stored as it ends, then the GPU tests in
# what is left of the time. The same command goes on with what is left, on another machine, too.
MINUTES ?= 12
.PHONY: gpu-claims
gpu-claims: GPU_OUT = $(or $(OUT),results/gpu)
gpu-claims: gpu-device  ## what claims need of a GPU, most important first, in MINUTES=12; OUT=folder
	@begin=$$(date +%s); status=0; \
	$(GPU_PYTHON) -P -m placerl gpu-claims --minutes $(MINUTES) --results $(GPU_OUT) || status=$$?; \
	left=$$(( $(MINUTES) * 60 - $$(date +%s) + begin )); \
	test $$left -lt 60 || timeout -s INT $$left $(GPU_PYTHON) -m pytest -m gpu --junitxml=$(GPU_OUT)/tests.xml || \
	{ test $$? -eq 124 && echo "The time was up during the GPU tests." || status=1; }; \
	exit $$status

gpu-tests: gpu-device
	$(GPU_PYTHON) -m pytest -m gpu --junitxml=$(GPU_OUT)/tests.xml

gpu-replay: gpu-device
	$(GPU_PYTHON) -P -m placerl bench replay --peers none --out $(GPU_OUT)/bench-replay --results $(GPU_OUT)

gpu-reproduce: gpu-device
	$(GPU_PYTHON) -P -m placerl reproduce --tier $(TIER) --results $(GPU_OUT)

gpu-validate: gpu-device
	$(GPU_PYTHON) -P -m placerl validate --tier $(TIER) --results $(GPU_OUT)

bench-replay: install  ## every sum tree compared with other libraries' in one interleaved table; OUT=folder
	$(BIN)/placerl bench replay --build $(if $(OUT),--out $(OUT))

reproduce: install  ## run the main job and write the report; TIER=quick|standard|full
	-$(BIN)/placerl baselines sb3
	$(BIN)/placerl reproduce --tier $(TIER)

bench-learner: install  ## gradient steps of every learner, compared with PyTorch at its best, SB3 and RLtools; OUT=folder
	$(BIN)/placerl bench learner --build $(if $(OUT),--out $(OUT))

bench-quantization: install  ## gradient steps in fixed point of 32 and 16 bits, compared with floats; OUT=folder
	$(BIN)/placerl bench quantization $(if $(OUT),--out $(OUT))

learn: install  ## train each algorithm here and in Stable-Baselines3, five seeds; TIER=quick|standard|full
	-$(BIN)/placerl baselines sb3
	$(BIN)/placerl learn --tier $(TIER)

lint: install  ## style, types, formatting, and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -P tests/floor_plan.py
	$(BIN)/clang-format --dry-run --Werror $(CPP_SOURCES)

format: install  ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_SOURCES)

clean:  ## remove the virtual environments and builds (results stay)
	rm -rf $(VENV) $(NEWEST) build baselines/*/.venv
