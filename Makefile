# Two commands do everything on a fresh Debian 12 machine: `make demo` and `make test`.
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)

.PHONY: help setup build demo test bench asan install docs format clean

help:            ## List the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24

setup:           ## Install the Debian packages that are missing
	@scripts/install-packages

build/build.ninja: | setup
	@cmake --preset release

build: build/build.ninja  ## Build the program build/poem and the library
	@cmake --build build --target poem_program -j $(JOBS)

demo: build      ## Train POEM, random outliers and no outliers on the embedded world; print the table
	@build/poem demo

test: build      ## Build and run every test
	@cmake --build build --target poem_tests -j $(JOBS)
	@ctest --preset release

bench: build     ## Measure; each line prints its ratio to a baseline from the same run
	@cmake --build build --target poem_bench -j $(JOBS)
	@build/bench/poem_bench $(ONLY)

asan: setup      ## Build with AddressSanitizer and UBSan and run every test
	@cmake --preset asan
	@cmake --build build-asan -j $(JOBS)
	@ctest --preset asan

install: build   ## Install program, library, headers and CMake package under PREFIX
	@cmake --install build --prefix $(PREFIX)

docs: build      ## Write docs/config.md anew from the declared keys
	@scripts/write-config-reference build/poem > docs/config.md

format:          ## Format all sources
	@clang-format -i $$(git ls-files '*.h' '*.cpp')

clean:           ## Remove what was built
	@rm -rf build build-asan build-cuda
