# Everything a developer runs. `make help` lists it.
#
# Each target sets itself up: a virtual environment in .venv, filled from requirements/*.txt
# (exact versions, hashes checked), by uv where it is installed, else by pip. Stamp files remember
# what is done, so a second call starts at once.

PY ?= python3
VENV ?= .venv
ARGS ?=
SOAK_SECONDS ?= 120
MINUTES ?= 5
SECONDS ?= 600

BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
UV := $(shell command -v uv 2>/dev/null)
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-header

ifdef UV
MAKE_VENV = $(UV) venv --quiet --allow-existing $(if $(filter file,$(origin PY)),--python '>=3.11',--python $(PY)) $(VENV)
INSTALL = $(UV) pip install --quiet --python $(BIN)/python --no-build-isolation
else
MAKE_VENV = $(PY) -m venv $(VENV)
PIP = $(BIN)/python -m pip
INSTALL = { $(PIP) --version || $(BIN)/python -m ensurepip; } >/dev/null 2>&1 && \
	$(PIP) install --quiet --disable-pip-version-check --no-build-isolation --use-pep517
endif

.DEFAULT_GOAL := help
.PHONY: console-images help demo demo-zookeeper demo-spark test package check soak fuzz soak-mixed chaos scale bench bench-peers docs lock clean
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "Variables: PY=$(PY) (the Python to use), VENV=$(VENV), ARGS=... (more arguments)."

demo: $(if $(findstring --zookeeper,$(ARGS)),$(STAMPS)/zookeeper,$(STAMPS)/run) ## a cluster, two ledgers, a crash: a story that ends
	@$(BIN)/python -m zbk demo $(ARGS)

demo-zookeeper: $(STAMPS)/zookeeper ## the same on a real ZooKeeper (downloads 0.5 GB once)
	@$(BIN)/python -m zbk demo --zookeeper $(ARGS)

demo-spark: $(STAMPS)/spark ## a bulk load from Spark, an attempt that fails, the same read back
	@$(BIN)/python -m zbk demo spark $(ARGS)

test: $(STAMPS)/test-caches ## all tests but the soak; ten minutes on two cores
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 6 --dist loadfile --no-loadscope-reorder -m "not soak and not package" $(ARGS)

package: $(STAMPS)/dev ## wheel, sdist, bill of materials in dist/; install them under every Python found, run the Dockerfile's commands
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 1580601600) $(BIN)/python -m hatchling build -d dist
	@$(BIN)/python -m tests.packaging.sbom dist
	@$(BIN)/python -m pytest -n 2 -m package --timeout 0 tests/packaging $(ARGS)

check: $(STAMPS)/dev ## lint, format, types, layers, voice, sizes
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.check_voice
	$(BIN)/python -m tests.count_code --check

soak: $(STAMPS)/dev ## crashes under load for SOAK_SECONDS; SEEDS=N or A:B simulates so many seeds instead
ifdef SEEDS
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(ARGS)
else
	@SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m pytest -m soak --timeout 0 $(ARGS)
endif

fuzz: $(STAMPS)/dev ## changed real messages in the decoder, for SECONDS of CPU time (ARGS='--seed N')
	@$(BIN)/python -m tests.hostile decoder --seconds $(SECONDS) $(ARGS)

soak-mixed: $(STAMPS)/dev ## write, read, delete, collect, kill -9 for MINUTES; report, picture of memory (ARGS='--report FILE.json')
	@$(BIN)/python -m tests.soak.mixed --minutes $(MINUTES) $(ARGS)

chaos: $(STAMPS)/dev ## real faults on real processes for MINUTES (PARTITIONS=1: firewalls between all of them; root)
	@$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(if $(PARTITIONS),--partitions) $(ARGS)

scale: $(STAMPS)/dev ## one bookie with 20,000 ledgers, 20 M entries, 1 GiB of journal (ARGS='--case restart')
	@$(BIN)/python -m tests.scale $(ARGS)

bench: $(STAMPS)/bench ## how fast it is, beside what the machine gives; under 20 minutes (ARGS=--quick: 2)
	@$(BIN)/python -m benchmarks $(ARGS)

bench-peers: $(STAMPS)/peers ## Redis Streams or NATS JetStream under zbk's load (ARGS='redis --size 1024')
	@$(BIN)/python -m benchmarks.peers $(ARGS)

console-images: $(STAMPS)/dev ## screenshots of the console's pages in docs/images (needs Chromium)
	@mkdir -p docs/images && ZBK_CONSOLE_IMAGES=docs/images $(BIN)/python -m pytest -q tests/browser $(ARGS)

docs: $(STAMPS)/docs ## the handbook: build/handbook/index.html; strict, no request to another host
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet $(ARGS)
	@echo "build/handbook/index.html; to search in it: $(BIN)/python -m http.server -d build/handbook"

lock: ## choose new versions for requirements/*.txt (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
	$(COMPILE) --upgrade pyproject.toml --extra zookeeper --extra spark --group dev -o requirements/dev.txt
	$(COMPILE) pyproject.toml -c requirements/dev.txt -o requirements/run.txt
	$(COMPILE) pyproject.toml --extra zookeeper -c requirements/dev.txt -o requirements/zookeeper.txt
	$(COMPILE) pyproject.toml --extra zookeeper --extra spark -c requirements/dev.txt -o requirements/spark.txt
	$(COMPILE) pyproject.toml --extra zookeeper --group bench -c requirements/dev.txt -o requirements/bench.txt
	$(COMPILE) pyproject.toml --group peers -c requirements/dev.txt -o requirements/peers.txt
	$(COMPILE) pyproject.toml --group docs -c requirements/dev.txt -o requirements/docs.txt
	$(COMPILE) --upgrade --group ci -o requirements/ci.txt
	$(COMPILE) --upgrade --group sbom -c requirements/dev.txt -o requirements/sbom.txt
	$(COMPILE) --upgrade requirements/build.in -c requirements/dev.txt -o requirements/build.txt

clean: ## remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ------------------------------------------------------------------ set-up

$(STAMPS)/venv:
ifndef UV
	@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "zbk needs Python 3.11 or newer and '$(PY)' is not: make $(MAKECMDGOALS) PY=python3.12, or install uv" >&2; exit 1; }
	@$(PY) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PY)' has no venv module: apt-get install python3-venv, or install uv" >&2; exit 1; }
endif
	@echo "setting up $(VENV) (once)" >&2
	@$(MAKE_VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/build: $(STAMPS)/venv requirements/build.txt
	@$(INSTALL) --require-hashes -r requirements/build.txt
	@touch $@

$(STAMPS)/test-caches: $(STAMPS)/dev
	@echo "compiling the tests, and making an archive of Spark's classes, with which they start sooner (once)" >&2
	@$(BIN)/python -m tests.support.spark_classes >/dev/null 2>&1 & \
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --collect-only -q >/dev/null 2>&1; wait
	@touch $@

$(STAMPS)/zookeeper $(STAMPS)/spark $(STAMPS)/bench $(STAMPS)/dev: PYSPARK = yes

$(STAMPS)/run $(STAMPS)/zookeeper $(STAMPS)/spark $(STAMPS)/bench $(STAMPS)/docs $(STAMPS)/peers $(STAMPS)/dev: $(STAMPS)/%: $(STAMPS)/build requirements/%.txt pyproject.toml
	@$(if $(PYSPARK),echo "installing what requirements/$*.txt names; ZooKeeper's jars come in pyspark (0.5 GB)" >&2)
	@$(INSTALL) --require-hashes -r requirements/$*.txt
	@$(INSTALL) --no-deps -e .
	@touch $@
