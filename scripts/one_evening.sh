#!/usr/bin/env bash
# MEDAL in one evening on eight GPUs: docs/tutorials/one_evening.md.
#
#   scripts/one_evening.sh                                  # says where the price is, and stops
#   ONE_EVENING_MAX_COST=900 scripts/one_evening.sh         # US dollars, for each run of a paid step
#   ONE_EVENING_MAX_COST=900 ONE_EVENING_HUB=my-org scripts/one_evening.sh     # and pushes three judges
#
# A step that ended well leaves a file in OUT/done and is skipped the next time; a step that was
# stopped goes on where it was. Keys: OPENAI_API_KEY, GEMINI_API_KEY, HF_TOKEN; they reach no file.
# ONE_EVENING_SETTINGS: a shell file that replaces what is set here, for another machine or scale.
set -euo pipefail
cd "$(dirname "$0")/.."

OUT=${ONE_EVENING_OUT:-runs/one_evening}
MAX_COST=${ONE_EVENING_MAX_COST:-}
HUB=${ONE_EVENING_HUB:-}
SODA=${ONE_EVENING_SODA:-1} # 0: without the training on Soda-Eval
BIN=.venv/bin
PORT=8000
GENERATE=configs/generate/medal.yaml
LABELLER=medal_gpt41
USER_CHECK=malformed
CURATED=100 # dialogues a language, for people to annotate
ENCODERS=(modernbert_medal_regression mmbert_medal)
LORA=lora_medal_8b
PROMETHEUS=Unbabel/M-Prometheus-14B
LAUNCH=("$BIN/accelerate" launch --config_file configs/accelerate/gpu8.yaml training/train.py)

# wave, place after PORT, GPUs, model, name in GENERATE. Two models of 70 billion parameters and more
# do not fit beside the others: the chatbots come in three waves and share the first messages.
MODELS="
all 0 0,7     google/gemma-3-27b-it              -
1   1 1       CohereLabs/aya-expanse-8b          aya-expanse-8b
1   2 2       CohereLabs/aya-expanse-32b         aya-expanse-32b
1   3 3       meta-llama/Llama-3.1-8B-Instruct   llama-3.1-8b-instruct
1   5 4       Qwen/Qwen2.5-3B-Instruct           qwen2.5-3b-instruct
1   6 5       Qwen/Qwen2.5-7B-Instruct           qwen2.5-7b-instruct
1   8 6       microsoft/Phi-3.5-mini-instruct    phi-3.5-mini-instruct
2   4 1,2,3,4 meta-llama/Llama-3.1-70B-Instruct  llama-3.1-70b-instruct
3   7 1,2,3,4 Qwen/Qwen2.5-72B-Instruct          qwen2.5-72b-instruct
"

serve() { # serve MODEL PORT GPUS: runs until it is stopped
    local gpus=${3//[!,]/}
    CUDA_VISIBLE_DEVICES=$3 exec "${VLLM:-vllm}" serve "$1" --port "$2" --max-model-len 8192 \
        --tensor-parallel-size $((${#gpus} + 1)) --gpu-memory-utilization 0.92
}
flags() { :; } # flags CONFIG: prints further overrides of a training, one a line

if [ -n "${ONE_EVENING_SETTINGS:-}" ]; then
    # shellcheck source=/dev/null
    source "$ONE_EVENING_SETTINGS"
fi
mkdir -p "$OUT/done" "$OUT/logs"

SERVERS=()
stop_servers() {
    for pid in "${SERVERS[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${SERVERS[@]}"; do wait "$pid" 2>/dev/null || true; done
    SERVERS=()
}
trap stop_servers EXIT

start_server() { # start_server MODEL PORT GPUS
    (serve "$1" "$2" "$3") >"$OUT/logs/server-$2.log" 2>&1 &
    SERVERS+=($!)
    echo "serving $1 on port $2, GPU $3"
}

await_servers() { # await_servers PORT...: an hour at most, as the first start downloads the weights
    local port tries
    for port in "$@"; do
        for ((tries = 0; ; tries++)); do
            curl -sf "http://localhost:$port/v1/models" >/dev/null && break
            if [ "$tries" -ge 1800 ]; then
                echo "no server on port $port: see $OUT/logs/server-$port.log" >&2
                exit 1
            fi
            sleep 2
        done
    done
}

step() { # step NAME COMMAND...: once, and says how long it took
    if [ -e "$OUT/done/$1" ]; then
        echo "== $1: done before ($(cat "$OUT/done/$1"))"
        return
    fi
    echo "== $1"
    local start=$SECONDS
    "${@:2}"
    echo "$((SECONDS - start)) s" >"$OUT/done/$1"
}

generate() { # generate WAVE
    local wave place gpus model name ports=() bots=()
    while read -r wave place gpus model name; do
        [ "$wave" = all ] || [ "$wave" = "$1" ] || continue
        start_server "$model" $((PORT + place)) "$gpus"
        ports+=($((PORT + place)))
        [ "$name" = - ] || bots+=(--chatbots "$name")
    done < <(grep . <<<"$MODELS")
    await_servers "${ports[@]}"
    "$BIN/medal" generate --config "$GENERATE" --out "$OUT/dialogues" "${bots[@]}" \
        --max-cost "$MAX_COST"
    stop_servers
}

label() {
    "$BIN/medal" label "$OUT/dialogues/dialogues.jsonl" --out "$OUT/labels" --judge "$LABELLER" \
        --user-judge "$USER_CHECK" --max-cost "$MAX_COST"
    "$BIN/medal" data stats "$OUT/labels/labelled.jsonl" --out "$OUT/stats"
}

curate() { # of the dialogues that no judge here learns from
    "$BIN/medal" data write "$LABELS:test" --out "$OUT/test.jsonl"
    "$BIN/medal" curate "$OUT/test.jsonl" --n "$CURATED" --out "$OUT/curated" --overwrite
    "$BIN/medal" annotate export "$OUT/curated/selection.jsonl" --out "$OUT/annotation"
}

train() { # train CONFIG FOLDER OVERRIDE...
    local more=()
    mapfile -t more < <(flags "$1")
    "${LAUNCH[@]}" --config "$1" "output_dir=$2" "${@:3}" "${more[@]}"
}

train_medal() { # train_medal CONFIG SODA_FOLDER [LANGUAGES]
    local langs=${3:+, langs: [$3]} start=()
    [ "$SODA" = 0 ] || start=("start=$2")
    train "$1" "$OUT/judges/$1" "train=[{source: '$LABELS:train'$langs}]" \
        "validation=[{source: '$LABELS:validation'$langs}]" \
        "test=[{source: '$LABELS:test'$langs}]" "${start[@]}"
}

benchmark() {
    local judges=() name
    start_server "$PROMETHEUS" $((PORT + 9)) 7 # the benchmark itself uses GPU 0
    await_servers $((PORT + 9))
    for name in "${ENCODERS[@]}" "$LORA"; do judges+=(--judge "$name=$OUT/judges/$name"); done
    "$BIN/medal" benchmark --config one_evening --out "$OUT/benchmark" "${judges[@]}" \
        "sets.0.source='$LABELS:test'" "judges.0.options.llm.model=$PROMETHEUS" \
        "judges.0.options.llm.base_url=http://localhost:$((PORT + 9))/v1"
    stop_servers
}

push() {
    "$BIN/medal" push "$OUT/judges/$1" "$HUB/$1"
}

LABELS=$OUT/labels/labelled.jsonl
if [ -z "$MAX_COST" ]; then
    echo "The paid models cost about 98 and 768 dollars: docs/tutorials/one_evening.md."
    echo "To go on: ONE_EVENING_MAX_COST=DOLLARS $0"
    exit 0
fi
for wave in 1 2 3; do step "generate-$wave" generate "$wave"; done
step check "$BIN/medal" data show "$OUT/dialogues/dialogues.jsonl"
step label label
step curate curate
if [ "$SODA" != 0 ]; then
    for name in "${ENCODERS[@]}"; do
        base=$("$BIN/python" -c 'import sys
from medal_judges.config import read_yaml
print(read_yaml(sys.argv[1], "train")["model"]["base"])' "$name")
        step "soda-$name" train soda_eval "$OUT/soda/$name" "model.base=$base"
    done
    step "soda-$LORA" train lora_soda "$OUT/soda/$LORA" model.base=Qwen/Qwen3-8B
fi
step "${ENCODERS[0]}" train_medal "${ENCODERS[0]}" "$OUT/soda/${ENCODERS[0]}" en
step "${ENCODERS[1]}" train_medal "${ENCODERS[1]}" "$OUT/soda/${ENCODERS[1]}"
step "$LORA" train_medal "$LORA" "$OUT/soda/$LORA"
step benchmark benchmark
if [ -n "$HUB" ]; then
    for name in "${ENCODERS[@]}" "$LORA"; do step "push-$name" push "$name"; done
fi
echo "== the page: $OUT/benchmark/report.html; for people to annotate: $OUT/annotation"
