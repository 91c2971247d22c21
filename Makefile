# Placet. `make demo` and `make test` need nothing but Python >= 3.11, make and a C library: they set up the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.placet-setup
GROUPS := gateway agent tool-executor approval memory provision build demo dev
export UV_LINK_MODE := copy
# Compiled modules are kept, but outside the sources.
export PYTHONPYCACHEPREFIX := $(CURDIR)/.placet/pycache

.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 18

.PHONY: setup
setup: $(STAMP) ## Make the environment: uv from PyPI, locked and hashed requirements

$(STAMP): pyproject.toml requirements/build.txt requirements/dev.txt
	@echo "setup: environment in $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/build.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/build.txt -r requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "setup: done"

.PHONY: lock
lock: ## Compile the hashed requirement locks again
	@test -x $(BIN)/uv || ($(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet uv)
	@for group in $(GROUPS); do \
		echo "lock: $$group"; \
		$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 \
			--group $$group $$([ $$group = build ] || echo pyproject.toml) -o requirements/$$group.txt; \
	done

.PHONY: opa
opa: setup ## Obtain OPA: from the path, else built from its pinned Go module, else the pinned release
	@$(BIN)/python -m placet.policy.obtain

.PHONY: generate
generate: setup ## Write what is made from the contracts: AsyncAPI, OpenAPI, permissions, golden messages
	@$(BIN)/placet generate

.PHONY: format
format: setup ## Format the sources
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix --quiet .

.PHONY: check
check: setup ## Format, lint, types, import rules, generated files, unit + contract + policy tests (under 2 minutes)
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/placet generate --check
	@$(BIN)/pytest -q -n 2 tests/unit tests/contracts tests/policy tests/architecture

.PHONY: test
test: setup ## Everything that needs no container engine but the kill tests: real nats-server, PostgreSQL, processes
	@if command -v go >/dev/null 2>&1 || command -v opa >/dev/null 2>&1; then $(BIN)/python -m placet.policy.obtain; fi
	@$(BIN)/pytest -q -n 2 --dist loadfile -m "not chaos" tests --ignore=tests/containers --ignore=tests/benchmarks

.PHONY: test-chaos
test-chaos: setup ## Kill tests: every child of `placet up`, documents and runs in the middle
	@$(BIN)/pytest -q -n 2 --dist loadfile -m chaos tests/integration

.PHONY: chaos-points
chaos-points: setup ## Kill real processes at named points, before and after every step of a refund and of its unknown ends
	@$(BIN)/pytest -q -n 2 --dist loadfile -m chaos tests/chaos

.PHONY: test-containers
test-containers: setup ## Container tests against locally built images; installs and starts an engine if there is none
	@deploy/offline-images/run-tests

.PHONY: images
images: setup opa ## Build all container images without a registry, into the engine that answers
	@$(BIN)/python deploy/offline-images start
	@$(BIN)/python deploy/offline-images build

.PHONY: demo
demo: setup ## The main job, end to end, on an embedded NATS, PostgreSQL and the real services
	@$(BIN)/placet demo

.PHONY: up
up: setup ## Serve everything until stopped
	@$(BIN)/placet up

.PHONY: spec
spec: setup ## Rows of the specification and the tests that prove them
	@$(BIN)/python -m placet.testkit.spec_report

.PHONY: chaos
chaos: setup ## Kill real processes at 200 random points of a refund: `make chaos SEED=7` draws the same points again
	@$(BIN)/python -m tests.chaos --points $(or $(POINTS),200) $(if $(SEED),--seed $(SEED))

.PHONY: bench
bench: setup ## Costs as ratios measured in one run
	@$(BIN)/python -m tests.benchmarks

.PHONY: bench-retrieval
bench-retrieval: setup ## How well search finds; DATA=dir adds {docs, queries, qrels} files to our own questions
	@$(BIN)/python -m tests.benchmarks.retrieval $(if $(DATA),--data $(DATA))

.PHONY: bench-runs
bench-runs: setup ## Whole runs through the front door beside LangGraph alone; 200 event streams on one gateway
	@$(BIN)/python -m tests.benchmarks runs event-streams

.PHONY: bench-approvals
bench-approvals: setup ## One approved action beside a plain table: runs/s, latency, CPU ms a run and process
	@$(BIN)/python -m tests.benchmarks approvals

.PHONY: bench-governed-read
bench-governed-read: setup ## One governed read beside a raw round trip on the bus
	@$(BIN)/python -m tests.benchmarks governed-read

.PHONY: bench-search
bench-search: setup ## Ingest, query time and memory as chunks grow; SIZES="1000 20000" for a shorter run
	@$(BIN)/python -m tests.benchmarks.search $(if $(SIZES),--sizes $(SIZES))

.PHONY: clean
clean: ## Remove the environment and all local state
	@rm -rf $(VENV) .placet .mypy_cache .ruff_cache
