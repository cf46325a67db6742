# Short names for CMake and the scripts: `make` lists the targets. Presets and options are in CMakePresets.json.
.DEFAULT_GOAL := help
.PHONY: help deps demo test bench gpu-check oracle docs-check format install

PREFIX ?= /usr/local
BENCH ?= all
# The preset for tools that run here: cuda if there are both nvcc and a GPU, else host.
preset = $(shell scripts/preset.sh)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: ## install the Debian packages that are missing
	@scripts/deps.sh

demo: deps ## build the attacca command and let its own small model tell a story
	@scripts/build.sh $(preset) attacca_link
	@build/attacca run "Tell me a story about a fox and a lantern." --seed 7 --stats

test: deps ## build and test everything: sanitizers, CUDA where nvcc is, host
	@scripts/test.sh

bench: deps ## build the benchmarks and run them here (BENCH=all: names and options, see attacca bench --help)
	@scripts/build.sh $(preset) attacca_link -DATTACCA_BENCH=ON
	@build/attacca bench $(BENCH)

gpu-check: ## on a machine with a GPU: tests, compute-sanitizer, benchmarks, tables
	@scripts/gpu-check.sh $(COMMIT)

ORACLE ?=
oracle: deps ## proofs with PyPI, Chromium and a real model (ORACLE=: openai load page trace grammar deploy headers image smollm2)
	@scripts/oracle.sh $(ORACLE)

docs-check: ## run every command that README.md and docs/ show
	@python3 scripts/docs_check.py

format: ## clang-format every source
	@git ls-files -co --exclude-standard '*.cpp' '*.hpp' '*.cu' '*.cuh' | xargs -r clang-format -i

install: deps ## install the library and the command (PREFIX=/usr/local)
	@scripts/build.sh $(preset) all
	@cmake --install build/$(preset) --prefix $(PREFIX)
