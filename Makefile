# Two commands do everything on a fresh machine with Python 3.11 or newer:
#   make demo   installs and reproduces Figure 1, with verdicts
#   make test   installs and runs the tests
# make quick is for those who change something, make docs for those who read.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test quick test-slow test-ray test-oldest test-newest check audit bench figures gallery docs docs-links clean

demo: $(VENV)/.report
	$(BIN)/ntkgp reproduce toy --preset demo --out runs/demo --quiet

test: $(VENV)/.test check
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow"

# A developer's answer in under two minutes: references, laws, losses and contracts.
quick: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/mypy --num-workers 2
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow" -q tests/test_project.py tests/predictive tests/data \
	    tests/core/test_storage.py tests/kernels/test_golden.py tests/laws/test_exact.py \
	    tests/laws/test_evidence.py tests/ensembles/test_noise.py tests/estimators/test_one_hot.py

# The figures of the documentation: the toy problem by both presets, and closeness against width.
figures: $(VENV)/.report
	$(BIN)/ntkgp reproduce toy --preset laptop --out runs/toy-laptop
	$(BIN)/ntkgp reproduce toy --preset paper --out runs/toy-paper
	$(BIN)/ntkgp reproduce widths --preset paper --out runs/widths

# The examples of the gallery: runs each page under docs/gallery, and keeps its picture and what it prints;
# then the digits against letters of the guide.
gallery: $(VENV)/.test
	$(BIN)/python docs/gallery/run.py
	$(BIN)/python benchmarks/letters.py

# The documentation as a site, in runs/site. A warning is an error, and so is a link that leads nowhere.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build --builder html --fresh-env --write-all --fail-on-warning --keep-going \
	    --quiet --jobs 2 --doctree-dir runs/site-cache docs runs/site
	$(BIN)/python tools/check_site.py runs/site
	$(BIN)/python -m doctest docs/_extensions/docstrings.py docs/_extensions/drawn_graph.py \
	    docs/_extensions/source_pages.py

# The links that lead to other sites; it needs the network.
docs-links: docs
	$(BIN)/sphinx-build --builder linkcheck --quiet --doctree-dir runs/site-cache docs runs/site-links

test-slow: $(VENV)/.test
	$(BIN)/pytest -n 2 --dist worksteal -m slow --ignore tests/test_ray.py

# Members on two nodes of a Ray cluster on this machine, a killed worker and a killed node among them.
test-ray: $(VENV)/.test
	$(PIP) -c constraints.txt -e '.[ray]'
	$(BIN)/pytest -m slow tests/test_ray.py

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2

# Known weaknesses of the packages that are installed; it asks a database on the network.
audit: $(VENV)/.test
	$(PIP) 'pip-audit>=2.7'
	$(BIN)/python -m pip freeze --exclude-editable > $(VENV)/installed.txt
	$(BIN)/pip-audit --strict --disable-pip --no-deps -r $(VENV)/installed.txt || { \
	    echo "make audit: a package named above has known weaknesses, or the database was not reached."; \
	    exit 1; }

# Tables of ratios against PyTorch, scikit-learn and limits of this machine, taken in one run each.
# exact_mnist.py, which needs MNIST, conformal.py, which needs tables of UCI, toy_solver.py and letters.py
# are run by themselves.
bench: $(VENV)/.bench
	for name in kernel conv_kernel mlp_training myrtle small_data prior_cost prediction growth first_fit; do \
	    $(BIN)/python benchmarks/$$name.py --out runs/bench || exit 1; \
	done

# The oldest versions that pyproject.toml promises, and the newest there are, each in an environment
# of its own. A newer Python gets newer versions: make test-newest NEWEST=python3.13
NEWEST ?= $(PYTHON)
test-oldest:
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet -c constraints-oldest.txt -e '.[report,test]'
	.venv-oldest/bin/pytest -n 2 --dist worksteal -m "not slow"

test-newest:
	$(NEWEST) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade -e '.[report,test]'
	.venv-newest/bin/pytest -n 2 --dist worksteal -m "not slow"

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest runs

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A change of what is needed installs it anew.
$(VENV)/.report: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -c constraints.txt -e '.[report]'
	touch $@

$(VENV)/.bench: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -c constraints.txt -e '.[report,bench]'
	touch $@

$(VENV)/.docs: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -c constraints.txt -e '.[docs]'
	touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -c constraints.txt -e '.[report,test]'
	touch $@
