# `make demo`: a release from a fresh checkout to verdicts. `make test`: what CI runs.
PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
export PATH := $(BIN):$(PATH)
export QPIPE_ENVS ?= $(CURDIR)/.qpipe/envs
# Nothing phones home unless the user turns it on.
export DO_NOT_TRACK ?= 1
export DVC_NO_ANALYTICS ?= 1
export MLFLOW_DISABLE_TELEMETRY ?= true
# Without bytecode every start of Python compiles all it imports again.
unexport PYTHONDONTWRITEBYTECODE

QUICK := .qpipe/quick

.PHONY: demo demo-quick test lint setup envs clean

demo: setup envs
	dvc repro
	@qpipe report --table
	@echo
	@echo "report   out/report/index.html"
	@echo "MLflow   MLFLOW_DISABLE_TELEMETRY=true .venv/bin/mlflow ui --backend-store-uri sqlite:///mlflow/mlflow.db"

demo-quick: setup envs
	scripts/workspace.sh $(QUICK) configs/examples/demo-quick.yaml
	cd $(QUICK) && dvc repro && qpipe report --table
	@echo
	@echo "report   $(QUICK)/out/report/index.html"
	@echo "MLflow   cd $(QUICK) && MLFLOW_DISABLE_TELEMETRY=true $(CURDIR)/.venv/bin/mlflow ui --backend-store-uri sqlite:///mlflow/mlflow.db"

test: setup envs lint
	pytest -q
	pytest -q -m engine

lint: setup
	ruff check .
	ruff format --check .
	mypy

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml
	scripts/setup.sh $(VENV) $(PYTHON)
	@touch $@

envs: setup
	@qpipe env sync

clean:
	rm -rf out .qpipe .venv mlflow
