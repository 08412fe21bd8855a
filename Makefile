# Convenience only: every command here can be typed by hand with .venv/bin on PATH.
STACK ?= local
# With STANDIN=1, EXPECT=efa leaves what the stack expects: it ends refuted.
STANDIN ?=
EXPECT ?= gloo
BENCH ?=
LOCK_ARGS ?=
BIN := .venv/bin
standin = $(BIN)/python -m tools.standin $(1) -s $(STACK) --expect $(EXPECT)
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help setup up preview down lint format test test-all bed browser test-full lock diagram docs bench clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## install what is missing: uv, the locked packages in .venv, the Pulumi CLI
	@sh tools/bootstrap.sh

up: ## set-up, then bring STACK up (default local): cluster, job, verdict
	@sh tools/bootstrap.sh --stack $(STACK)
	@$(if $(STANDIN),$(call standin,up),$(BIN)/efactl up -s $(STACK))

preview: ## what `up` would change in STACK (up, preview, down with STANDIN=1: an eks stack without an account)
	@sh tools/bootstrap.sh --stack $(STACK)
	@$(if $(STANDIN),$(call standin,preview),$(BIN)/pulumi preview -s $(STACK))

down: setup ## destroy STACK and show that nothing is left
	@$(if $(STANDIN),$(call standin,down),$(BIN)/efactl down -s $(STACK))

lint: setup ## formatting, lint and types
	@$(BIN)/ruff format --check --quiet . || { echo "make: run 'make format'" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary

format: setup ## rewrite the Python files as the formatter wants them
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

test: lint ## lint, then every test that needs no more than this machine's Python, but for the slow ones
	@$(BIN)/python -m tools.halves

test-all: test ## test, then the Kubernetes test bed: the whole path through a real control plane
	@$(BIN)/python -m pytest -m "cluster and not full"

bed: setup ## run a Kubernetes test bed in the foreground, for trying things by hand
	@$(BIN)/python -m tools.bed up

browser: setup ## fetch the browser (npm) in which the tests look at a run's report; without it they are skipped
	@$(BIN)/python -m tools.browser

test-full: lint ## lint, then every test, the fault matrices and long runs included
	@$(BIN)/python -m tools.browser || echo "make: without a browser the report's looks are not tested" >&2
	@$(BIN)/python -m pytest

lock: setup ## requirements.lock from pyproject.toml (LOCK_ARGS="--upgrade-package ray")
	@$(BIN)/python -m tools.lock $(LOCK_ARGS)

diagram: setup ## the picture in docs/architecture.md, from the graph that the program registers
	@$(BIN)/python -m tools.diagram

docs: setup ## reference pages written anew, every link looked at, the site built into .state/site
	@$(BIN)/python -m tools.docs

bench: setup ## run the benchmarks, or those named in BENCH
	@for name in $(if $(BENCH),$(BENCH),$(sort $(basename $(notdir $(wildcard benchmarks/[a-z]*.py))))); do \
		echo "benchmarks/$$name.py"; $(BIN)/python -m "benchmarks.$$name" || exit 1; \
	done

clean: ## remove tool caches and bytecode (.venv, .state and runs stay)
	@rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
