# Two commands do everything on a fresh Debian 12 machine: `make demo` and `make test`.
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)

.PHONY: help setup setup-tests setup-python screenshots build build-python python demo test bench build-gpu test-gpu bench-gpu asan install docs format clean

help:            ## List the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24

setup:           ## Install the Debian packages that are missing
	@scripts/install-packages

build/build.ninja: | setup
	@cmake --preset release

build: build/build.ninja  ## Build the program build/poem and the library
	@cmake --build build --target poem_program -j $(JOBS)

demo: build      ## Compare POEM, random outliers and none on the embedded world; print the table
	@build/poem demo

test: setup-tests build-python  ## Build and run every test
	@cmake --build build --target poem_program poem_tests -j $(JOBS)
	@ctest --preset release

# The Python package, which needs pybind11. A build folder that was made without it is configured again.
build-python: setup-python
	@cmake --preset release -DPOEM_PYTHON=ON --log-level=WARNING
	@cmake --build build --target poem_python -j $(JOBS)

setup-python: setup
	@scripts/install-packages python

python: build-python  ## Build the Python package and install it for the system's Python
	@cmake --install build --component python

# A browser, from npm axe-core and onnxruntime, for the tests of pages and of exported models; PyTorch,
# torchvision and scikit-learn, for those of the Python package and of imported weights.
MODULES := tests/browser/node_modules/.package-lock.json
setup-tests: setup setup-python
	@scripts/install-packages tests
	@$(MAKE) -s $(MODULES)

$(MODULES): tests/browser/package-lock.json
	@npm ci --prefix tests/browser --no-audit --no-fund --loglevel=error

screenshots: build setup-tests  ## Take the pictures of docs/report.md: of a run of configs/demo.yaml
	@test -d runs/first || build/poem train configs/demo.yaml --out runs/first
	@/usr/bin/python3 tests/browser/report_test.py build/poem runs/first docs

bench: build build-python  ## Measure; each line prints its ratio to a baseline from the same run
	@scripts/install-packages bench
	@cmake --build build --target poem_bench -j $(JOBS)
	@build/bench/poem_bench $(ONLY)

# Everything that needs a GPU is built with the LibTorch inside a PyTorch install, or the one TORCH names.
TORCH ?= $(shell python3 -c 'import torch; print(torch.utils.cmake_prefix_path)' 2>/dev/null)
build-gpu:
	@test -n "$(TORCH)" || { echo "no LibTorch with CUDA found: give TORCH=…/share/cmake" >&2; exit 2; }
	@cmake --preset cuda -DCMAKE_PREFIX_PATH="$(TORCH)"
	@cmake --build build-cuda -j $(JOBS)

test-gpu:        ## Build with CUDA and run the tests that need a GPU; skipped without one
	@if nvidia-smi >/dev/null 2>&1; then $(MAKE) build-gpu && build-cuda/tests/poem_gpu_tests; \
	 else echo "no GPU here: the GPU tests are skipped"; fi

bench-gpu: build-gpu  ## Time an epoch of the paper's setting on a GPU, phase by phase
	@build-cuda/bench/gpu_bench

asan: setup-tests  ## Build with AddressSanitizer and UBSan and run every test
	@cmake --preset asan
	@cmake --build build-asan -j $(JOBS)
	@ctest --preset asan

install: build   ## Install program, library, headers and CMake package under PREFIX
	@cmake --install build --prefix $(PREFIX)

docs: build      ## Write docs/config.md anew from the declared keys
	@scripts/write-config-reference build/poem > docs/config.md

format:          ## Format all sources
	@clang-format -i $$(git ls-files '*.h' '*.cpp' '*.cu' '*.cuh')

clean:           ## Remove what was built
	@rm -rf build build-asan build-cuda
