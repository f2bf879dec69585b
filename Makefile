# Every target stands on `make setup` alone. Caches live outside the checkout:
#   $(CACHE)/cpu-engine    vLLM for CPU with real weights (deploy/cpu-engine)
#   $(CACHE)/clients-*     the real clients that `make acceptance` runs, at pinned versions
#   $(CACHE)/sandbox-image-*  the Python of containers in which those clients' code runs, of one list of packages;
#                          in /var/cache/penstock where the users of containers cannot enter $(CACHE)
#   $(CACHE)/vllm-router   and sglang-router, litellm: what `make bench-overhead` measures beside us;
#                          and py-spy, for `make bench-profile`
#   $(CACHE)/image-*       the container image's base, layers and wheels (deploy/container)
#   $(CACHE)/native-*      the package with its hot modules compiled (deploy/native); the newest three
#   uv's own cache         wheels, so that a second `make setup` takes seconds
CACHE := $(or $(PENSTOCK_CACHE),$(HOME)/.cache/penstock)
PYTHON ?= python3
BIN := .venv/bin
# Runs pytest, and what failed once more, alone; what fails twice fails (tests/suite.py).
SUITE = $(BIN)/python -m tests.suite
# Every test at full length, as `make nightly` runs them: FULL=1.
LENGTH = $(if $(FULL),--full)
export PENSTOCK_CACHE := $(CACHE)
# The C compiler's level. Wheels and measurements take the fastest code; tests take half the time to
# compile.
export NATIVE_OPTIMISE ?= $(if $(filter wheel image release soak bench-%,$(filter-out bench-count,$(MAKECMDGOALS))),2,1)
# Type checking takes minutes without its cache, and seconds with it.
export MYPY_CACHE_DIR := $(CACHE)/mypy

.PHONY: setup check test unit integration native wheel image release simulation engine acceptance up docs site clean pin bench-overhead bench-gate bench-profile bench-count bench-console bench-contracts bench-readers bench-traces bench-routing bench-scaling bench-queue \
	bench-flex bench-agents bench-pressure bench-workers chaos chaos-agents chaos-contracts chaos-fleet chaos-kubernetes chaos-metering hostile-sandbox soak nightly summary \
	verify-release

setup: .venv/.ready

.venv/.ready: requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements/dev.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy src tests benchmarks docs deploy examples
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py tests/test_docs.py

test: unit integration

unit: setup
	$(SUITE) unit -n 2 tests/unit

# On the compiled package, which is what operators run; `make unit` is on the sources. Alerts and dashboards are run by
# Debian's `prometheus`, and skipped without it. Its tests wait more than they compute: three workers fill two cores,
# and take two thirds of the time that two take.
integration: native
	export PYTHONPATH=$$($(BIN)/python deploy/native/build.py); \
	$(SUITE) integration -n 3 --dist loadfile --no-loadscope-reorder $(LENGTH) tests/integration

# The hot modules compiled; minutes when they have changed. Prints the folder, for PYTHONPATH.
native: setup
	$(BIN)/python deploy/native/build.py

# The same as a wheel for this platform, in dist/.
wheel: setup
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 $(BIN)/hatchling build -t wheel

# The container image penstock:VERSION, with the compiled package: by Docker, or by buildah where no
# Docker runs. IMAGE_BASE names an image with Python to build on.
image: setup
	$(BIN)/python deploy/container/build.py $(if $(IMAGE_BASE),--base $(IMAGE_BASE))

# The files of a release in dist/, and the version in pyproject.toml and CHANGELOG.md; publishes
# nothing. PENSTOCK_PROJECT_URL is the repository's address, for the links on a package index.
release: setup
	$(BIN)/python deploy/release/release.py $(VERSION)

# The routing code in a simulated fleet, on generated agent traffic; compiled it takes a quarter of
# the time.
simulation: native
	export PYTHONPATH=$$($(BIN)/python deploy/native/build.py); \
	$(SUITE) simulation -n 2 $(LENGTH) tests/simulation

# The real engine: installed on first use, 3 to 6 minutes.
engine: setup
	deploy/cpu-engine/setup
	tests/acceptance/clients/setup-python
	$(SUITE) engine $(LENGTH) tests/engine

# Real clients against a real `penstock up`, the docs' own commands, and pictures of what people see.
acceptance: setup
	deploy/cpu-engine/setup
	tests/acceptance/clients/setup-python
	tests/acceptance/clients/setup-node
	$(SUITE) acceptance -n 3 --dist loadfile --no-loadscope-reorder $(LENGTH) tests/acceptance

up: setup
	deploy/cpu-engine/setup
	$(BIN)/penstock up

docs: setup
	$(BIN)/python docs/docs_generate.py

# The docs as a site, in site/; warnings are errors, which --quiet would hide.
site: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# What a request costs beside vllm-router, sglang-router, LiteLLM and nginx: 20 minutes. Fails where
# a ratio is above its gate.
GATES = --gate benchmarks/ratio_gates.json
bench-overhead: setup
	$(BIN)/python benchmarks/overhead.py $(GATES)

# The same beside vllm-router alone, 3 minutes.
bench-gate: setup
	$(BIN)/python benchmarks/overhead.py --seconds 0.8 --candidates penstock,vllm-router \
		--only small,chunk,body_300kb,body_1mb,agent $(GATES)

# Where each microsecond goes, room by room. Needs leave to ptrace.
bench-profile: setup
	$(BIN)/python benchmarks/room_profile.py

# Instructions per request, chunk and agent's turn, held to 1.25 times the recorded counts: 2 minutes
# whatever else the machine does. FUNCTIONS=1 prints each function's cost, WITH_TOOLS=1 counts with hosted tools
# configured. Needs valgrind.
bench-count: setup
	$(BIN)/python benchmarks/instruction_count.py $(if $(ONLY),--only $(ONLY)) \
		$(if $(FUNCTIONS),--functions) $(if $(WITH_TOOLS),--with-tools) --gate benchmarks/recorded_counts.json

# Instructions that contracts add: to a small request without one (at most 300) and under one that only labels (1.04 of
# without), and to a chunk of text under [tools] (1.03): 6 minutes, and up to 8 more when compiled modules have changed,
# because it compiles them without the tests for contracts, too. ROUNDS=5, FUNCTIONS=1. Needs valgrind and git.
bench-contracts: setup
	$(BIN)/python benchmarks/contract_costs.py $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(FUNCTIONS),--functions)

# What traces add, off and on, in instructions: minutes, and once more to compile without their tests. FUNCTIONS=1.
bench-traces: setup
	PYTHONPATH=. $(BIN)/python benchmarks/trace_costs.py $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(FUNCTIONS),--functions)

# The console's pages on a month of a million attempts, beside their own statements, and what axe finds: 12 minutes.
bench-console: setup
	tests/acceptance/clients/setup-node
	PYTHONPATH=. $(BIN)/python benchmarks/console.py

# What fifty readers of live pages cost a gateway that answers 200 requests a second: MINUTES=10.
bench-readers: setup
	PYTHONPATH=. $(BIN)/python benchmarks/console_readers.py $(if $(MINUTES),--minutes $(MINUTES))

# A simulated fleet on published traces, our rule and others', up to 25 minutes; FULL=1 for every row and the plots.
bench-routing: setup
	$(BIN)/python benchmarks/routing.py $(if $(FULL),--full)

# Engine-hours and first tokens of a simulated day by our rule, KEDA's and others', on a published
# trace: 40 minutes.
bench-scaling: native
	PYTHONPATH=$$($(BIN)/python deploy/native/build.py | tail -1) $(BIN)/python benchmarks/autoscale.py

# The queue's functions beside the same statements run bare, at a thousand and at a million jobs.
bench-queue: setup
	$(BIN)/python benchmarks/queue_rate.py

# Live requests with and without jobs behind them on the real engine, at 0.4 and at 0.7 of its own
# prefill rate, about 20 minutes each; the same at a hundred times the size in the simulator with FLEET=1.
bench-flex: setup
	deploy/cpu-engine/setup
	PYTHONPATH=. $(BIN)/python benchmarks/$(if $(FLEET),flex_fleet.py,flex.py)

# What stored responses, chains and background ends cost, over none and over bare statements, and what running code in
# containers costs (root and bubblewrap): 7 minutes.
bench-agents: setup
	PYTHONPATH=$$($(BIN)/python deploy/native/build.py):. $(BIN)/python benchmarks/agent_state.py

# Jobs behind live requests that want every slot, and bursts onto replicas full of jobs: 13 minutes.
bench-pressure: setup
	PYTHONPATH=. $(BIN)/python benchmarks/flex_pressure.py $(if $(MINUTES),--minutes $(MINUTES))

# Jobs while everything is killed, the Postgres primary too, up to 15 minutes; SHORT=1 for CI's form.
chaos: setup
	$(BIN)/python -m tests.chaos.flex $(if $(SHORT),--short) $(if $(SEED),--seed $(SEED))

# Kills of gateways and keepers while background responses are queued and read, and of a sandbox host while code runs in
# 30 containers, up to 6 minutes; SHORT=1 for CI's form, which leaves the host out where containers cannot run.
chaos-agents: setup
	$(BIN)/python -m tests.chaos.agents $(if $(SHORT),--short) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.chaos.sandbox_kill $(if $(SHORT),--short)

# Gateways killed and Postgres away for a minute while contracts withhold and change answers, then the log of decisions
# verified, and tampered with: 5 minutes; SHORT=1 for CI's form.
chaos-contracts: setup
	$(BIN)/python -m tests.chaos.contracts $(if $(SHORT),--short) $(if $(SEED),--seed $(SEED))

# Kills keepers, engines and control and cuts hosts off while deployments change: 8 minutes; SHORT=1 for CI's form.
chaos-fleet: setup
	$(BIN)/python -m tests.chaos.fleet $(if $(SHORT),--short) $(if $(SEED),--seed $(SEED))

# A cell on a real Kubernetes cluster with two nodes, set up by the docs' page, then broken: 15 minutes.
# Needs root, and the programs of Kubernetes (PENSTOCK_KUBE_ARCHIVE).
chaos-kubernetes: setup
	$(BIN)/python -m tests.chaos.kubernetes

# Hostile code in the containers of a real sandbox host, through its API, up to 3 minutes. Needs root and bubblewrap.
hostile-sandbox: setup
	$(BIN)/python -m tests.chaos.sandbox

# Kills and outages of metering, about 5 minutes; SHORT=1 for the form that CI runs, ONLY=a for one part.
chaos-metering: setup
	$(BIN)/python -m tests.chaos.metering $(if $(SHORT),--short) $(if $(ONLY),--only $(ONLY))

# Gateways of an earlier commit and of this checkout side by side on one database, under load, with
# the migrations in between: BASE=v0.1.0 or any commit. Needs git.
BASE ?= $(shell git describe --tags --abbrev=0 2>/dev/null || git rev-parse HEAD~1)
verify-release: setup
	$(BIN)/python -m tests.chaos.release --base $(BASE)

# Does a gateway grow under 64 streams and 200 requests/s? Half an hour, or so many MINUTES.
soak: setup
	$(BIN)/python benchmarks/soak.py $(if $(MINUTES),--minutes $(MINUTES))

# CPU per request of one gateway worker and of two, in one interleaved run: 10 minutes.
bench-workers: setup
	$(BIN)/python benchmarks/soak_workers.py

# The slowest tests of all suites that ran here, and those that passed only at the second try.
summary: setup
	$(SUITE) --summary

# Everything at full length, about four hours on two cores: what `.ci/run` shortens, and the long
# runs beside it. Needs a quiet machine. The last four all run, also where one is above its limit.
nightly: setup
	$(MAKE) check unit
	$(MAKE) integration simulation engine acceptance FULL=1
	$(MAKE) summary
	$(MAKE) chaos-metering
	$(MAKE) chaos
	$(MAKE) chaos-agents
	$(MAKE) chaos-contracts
	$(MAKE) chaos-fleet
	$(MAKE) chaos-kubernetes
	$(MAKE) hostile-sandbox
	$(MAKE) bench-count
	$(MAKE) soak
	$(MAKE) bench-overhead
	$(MAKE) --keep-going bench-contracts bench-traces bench-console bench-readers

# Renew the pinned versions from pyproject.toml's ranges; runtime.txt is what the container image has. Its extras are
# kept: where only `httpx2` is pinned, pip refuses the `httpx2[http2]` that a dependency asks for.
pin: setup
	$(BIN)/uv pip compile --quiet --no-strip-extras --generate-hashes --no-emit-index-url --no-header --extra kubernetes pyproject.toml -o requirements/runtime.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --extra dev pyproject.toml -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header requirements/clients.in -o requirements/clients.txt

clean:
	rm -rf .venv site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
