# For the scripts beside it (". environment.sh"): fresh environments, outside of any checkout.
#   PYTHON   the interpreter (python3)
#   TORCH    what stands in for torch's newest (torch==2.13.0, as in the Makefile)
#   WORK     where environments and outputs go (a temporary folder, removed at the end)
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PYTHON=${PYTHON:-python3}
TORCH=${TORCH:-torch==2.13.0}
if [ -z "${WORK:-}" ]; then
  WORK=$(mktemp -d)
  trap 'rm -rf "$WORK"' EXIT
fi
unset PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK=1 HF_HUB_OFFLINE=1

say() { echo "+ $*" >&2; "$@"; }  # not into what a command writes
took() { echo "  $1: $SECONDS s"; }  # since the last SECONDS=0

# fresh NAME: an environment $WORK/NAME with torch in it; $BIN is its folder of commands.
fresh() {
  say "$PYTHON" -m venv "$WORK/$1"
  BIN=$WORK/$1/bin
  say "$BIN/python" -m pip install -q "$TORCH"
}

# built: the wheel by way of the sdist, so that what an sdist loses is missing here; sets $WHEEL.
built() {
  "$PYTHON" -m venv "$WORK/build"
  "$WORK/build/bin/python" -m pip install -q build
  say "$WORK/build/bin/python" -m build -o "$WORK/dist" "$ROOT" > "$WORK/build.log" \
    || { tail -20 "$WORK/build.log"; exit 1; }
  rm -rf "$ROOT/build" "$ROOT"/src/*.egg-info
  WHEEL=$(ls "$WORK"/dist/*.whl)
}
