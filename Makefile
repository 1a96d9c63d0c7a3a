# Everything a newcomer needs: `make bench` and `make test`. VENV holds the control environment: asv and the command line, and when
# something here asks for them, what tests, lint and notebooks need (READY). The frameworks have environments of their own in the user's
# cache, built when first needed.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# installed without byte code, which is written when it is first needed; where none may be, every process compiles it anew
unexport PYTHONDONTWRITEBYTECODE
# the name that the results go under; by default the host's
AS     := $(if $(MACHINE),--machine $(MACHINE))
MEASURES := $(VENV)/.measures
READY    := $(VENV)/.ready
SITE     := $(VENV)/.site
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder
# the machine that README shows: all that the quick profile times was timed there in five blocks
SHOWN  := zen4-2core
# the one with the most strategies, which the ledger, figures and notebooks show
WIDEST := xeon-2core
# the one whose strategies were measured at three batches each
BATCHED := zen4-2core
# and the one where releases were measured last
UPGRADED := zen4-2core

.PHONY: setup bench bench-gpu environments test test-all test-control test-site test-slurm mutants lint style project site report notebooks jupyter clean

setup: $(READY)
	@echo "framebench is installed in $(VENV), without a framework. Next:"
	@echo "  source $(BIN)/activate"
	@echo "  framebench answer          # from published records: what training needs, and what saves most of it"
	@echo "  framebench setup torch     # PyTorch, to measure here; or make bench: all three, and a first comparison"

# editable_mode=compat installs the package by its path: otherwise a script beside a clone named framebench
# imports the clone's folder
$(MEASURES): requirements/control.txt pyproject.toml
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "Python's venv module is incomplete (Debian: apt-get install python3-venv)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "framebench needs Python 3.11 or newer"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile -r requirements/control.txt
	$(BIN)/pip install --quiet --no-build-isolation --no-deps --config-settings editable_mode=compat -e .
	@touch $@

# Sphinx and what else makes pages, when they are first asked for
$(SITE): $(MEASURES) requirements/site.txt
	$(BIN)/pip install --quiet --no-compile -r requirements/site.txt
	@touch $@

$(READY): $(MEASURES) requirements/develop.txt
	$(BIN)/pip install --quiet --no-compile -r requirements/develop.txt
	@touch $@

# A first comparison through asv, on the screen as it comes: PyTorch's and JAX's while Jittor's core compiles. PROFILE=quick or
# standard measures more, BENCH=TransformerTorch what matches; FRESH=1 builds every environment anew in an empty cache folder.
# It fails where something could not be set up or run. A case that came out wrong or failed is part of the answer, which has its
# cause; with STRICT=1 that fails too.
PROFILE ?= first
bench: $(MEASURES)
ifneq ($(FRESH),)
	rm -rf .fresh-cache
	FRAMEBENCH_CACHE=$(CURDIR)/.fresh-cache $(MAKE) bench FRESH=
	rm -rf .fresh-cache
else
	@$(BIN)/asv machine --yes $(AS) > /dev/null
	@# asv ends with 2 where a case failed (framebench/asv/outcome.py); the answer of all the others is shown in any case
	FRAMEBENCH_PROFILE=$(PROFILE) $(BIN)/asv run $(AS) $(if $(BENCH),--bench="$(BENCH)"); status=$$?; \
	  $(BIN)/framebench answer --machine $(or $(MACHINE),$$(uname -n)) || exit $$?; \
	  if [ $$status = 2 ] && [ -z "$(STRICT)" ]; then exit 0; fi; \
	  if [ $$status != 0 ]; then echo "make bench: asv run ended with status $$status; its last lines, above the answer, say why"; fi; \
	  exit $$status
endif

# The list for a GPU, by the torch and JAX that PYTHON has already: docs/gpu.md
bench-gpu:
	PYTHON=$(PYTHON) tools/gpu.sh

# Each strategy of each framework once, but for those that differ in a number alone, or that only a claim asks for and PyTorch has;
# test-all, which also runs every week: every case, every pair, a GPU's rehearsal, and what repeats for other frameworks. Three files
# at once, since most of the time goes into compilers, on one core each
test: environments
	$(PYTEST)

test-all: environments
	$(PYTEST) -m "not slurm"

# The quick tests of what runs in the control environment: for the Pythons on which the frameworks are not tested
test-control: $(READY)
	$(PYTEST) --without-frameworks -m "not slow and not slurm and not all_cases" tests

# The tests of the site, which `make test` skips where nobody asked for Sphinx
test-site: $(READY) $(SITE)
	$(BIN)/python -m pytest -m "not slurm" tests/publish/site tests/published/test_site.py

# Runs over machines, against a Slurm that the test starts; skipped, with the reason, where there is none
test-slurm: $(READY)
	$(BIN)/python -m pytest -m slurm tests/cluster/test_slurm.py

# the frameworks', built if they are not there yet
environments: $(READY)
	$(BIN)/framebench setup

# Bugs planted in copies of the source, one at a time, which verification must call wrong. MINUTES=m: in random order, and none is
# begun when so much time has passed
mutants: environments
	$(BIN)/python -m tests.mutants.run $(if $(MINUTES),--minutes $(MINUTES))

lint: style
	$(BIN)/mypy
	$(BIN)/python -m tools.typecheck

# What a commit must pass, in seconds: .pre-commit-config.yaml calls both
style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python -m tools.stale_names

project: $(READY)
	$(BIN)/python -m pytest -q tests/test_workflows.py

# Guides, reference, notebooks and records as pages in site/, which need neither network nor server
site: $(SITE)
	$(BIN)/framebench report --machine all --html --to site

# Everything that the records under results/ say: tables, documents with the ledger of claims, figures, pages. Measures nothing, needs no framework
report: $(MEASURES)
	$(BIN)/framebench report $(foreach file,README.md $(wildcard docs/*.md),--docs $(file)) --to results/tables > /dev/null
	$(BIN)/framebench report --figures all --machine $(WIDEST)
	$(BIN)/framebench report --figures 'memory-speed-*-train' --machine $(SHOWN)
	$(BIN)/framebench report --figures 'pareto-*' --machine $(SHOWN)
	$(BIN)/framebench report --figures 'savings-*' --machine $(BATCHED)
	$(MAKE) site

# The notebooks' executed form
NOTEBOOKS := $(filter-out versions comparison,$(basename $(notdir $(wildcard analysis/notebooks/*.py))))
notebooks: $(READY)
	$(BIN)/framebench report $(foreach name,$(NOTEBOOKS),--notebooks $(name)) --machine $(WIDEST)
	$(BIN)/framebench report --notebooks versions --machine $(UPGRADED)
	$(BIN)/framebench report --notebooks comparison --machine $(BATCHED)

# The same to be tried out: JupyterLab, installed beside the rest when it is first asked for
jupyter: $(READY)
	$(BIN)/pip install --quiet -r requirements/jupyter.txt
	$(BIN)/jupyter lab analysis/notebooks/executed

clean:
	rm -rf $(VENV) .asv .fresh-cache
