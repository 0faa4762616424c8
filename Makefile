# Two commands do everything on a fresh Debian 12: `make demo` and `make test`.
BUILD ?= build
PREFIX ?= /usr/local

.PHONY: help setup build demo test bench asan install docs format clean
help:            ## List the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' $(MAKEFILE_LIST)

setup:           ## Install the Debian packages that are missing
	@scripts/install-packages

build: setup     ## Build the program, the library, the tests and the benchmarks' common parts
	@cmake --preset release -B $(BUILD) >$(BUILD)-configure.log 2>&1 || { cat $(BUILD)-configure.log; exit 1; }
	cmake --build $(BUILD)
