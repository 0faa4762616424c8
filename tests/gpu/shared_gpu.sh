#!/usr/bin/env bash
# Trains the same config in one process and in two processes that share one GPU, without and with MPS, and compares
# losses, mined sets, weights and times; then kills one of the two.
#
#   tests/gpu/shared_gpu.sh build-cuda/poem [EPOCHS]      # DEVICE=cpu: the same on a CPU, to try the script
#
# It prints one line per training and ends with 1 if two processes do not give the result of one. Nothing is left behind.
# No training takes longer than PART seconds (60): one that does is ended, and what it had done is compared. After TOTAL
# seconds (600) no other one begins. IMAGES (4000) is the size of the training set.
set -euo pipefail
program=$(realpath "$1")
epochs=${2:-3}
device=${DEVICE:-cuda} part=${PART:-60} total=${TOTAL:-600} images=${IMAGES:-4000}
top=$(mktemp -d)
export CUDA_MPS_PIPE_DIRECTORY=$top/mps CUDA_MPS_LOG_DIRECTORY=$top/mps
[ "$device" = cpu ] || export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
mps_runs=
stop_mps() {
  [ -z "$mps_runs" ] || echo quit | nvidia-cuda-mps-control >/dev/null || true
  mps_runs=
}
trap 'stop_mps; rm -rf "$top"' EXIT
cd "$top"
mkdir mps

cat >config.yaml <<TEXT
data:
  train: world:train:$images
  outliers: world:outliers:$((2 * images))
  validation: 0.1
network: {name: densenet, depth: 40}
mining: {pool: $((2 * images)), select: $((images * 9 / 10))}
train: {epochs: $epochs, learning_rate: 0.01, deterministic: true}
TEXT
[ "$device" != cpu ] || sed -i "s/:$images\$/:400/; s/:$((2 * images))\$/:400/; s/pool:.*/pool: 400, select: 360}/; s/depth: 40/depth: 10/" config.yaml

train() { # RUN PROCESSES KEY=VALUE...
  local run=$1 processes=$2 set=()
  for key in "${@:3}"; do set+=(--set "$key"); done
  local command=(train config.yaml --out "$run" "${set[@]}")
  [ "$processes" = 1 ] || command=(launch --nproc "$processes" "${command[@]}")
  if [ $SECONDS -ge "$total" ]; then
    echo "$run: not begun, $SECONDS s are over"
    return 1
  fi
  local code=0 begun=$SECONDS
  limited "$program" --device "$device" "${command[@]}" >"$run.out" 2>"$run.log" || code=$?
  if [ $code = 124 ] || [ $code = 137 ]; then
    echo "$run: ended after $part s, with $(cat "$run/metrics.jsonl" 2>/dev/null | wc -l) of $epochs epochs"
    tail -2 "$run.log"
    [ -s "$run/metrics.jsonl" ] || return 1
  elif [ $code != 0 ]; then
    echo "$run: FAILED with $code after $((SECONDS - begun)) s"
    tail -5 "$run.log"
    return 1
  else
    echo "$run: trained in $((SECONDS - begun)) s with all its start"
  fi
}

# A process group of its own, so that no rank outlives the limit.
limited() { timeout -k 5 "$part" "$@"; }

cat >compare.py <<'PYTHON'
# compare.py RUN REFERENCE TOLERANCE: losses and weights as relative differences, the mined set as a share in common.
# The first epoch has seen the fewest roundings, so its figures are the ones that must agree.
import array, json, struct, sys

def tensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    types = {"F32": "f", "F64": "d", "I64": "q"}
    for name, entry in header.items():
        first, last = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] in types:
            yield name, array.array(types[entry["dtype"]], data[first:last])

def epochs(run):
    return [json.loads(line) for line in open(run + "/metrics.jsonl")]

run, reference, tolerance = sys.argv[1], sys.argv[2], float(sys.argv[3])
ours, theirs = epochs(run), epochs(reference)
complete = len(ours) == len(theirs)
theirs = theirs[:len(ours)]
losses = [abs(a["loss"] - b["loss"]) / abs(b["loss"]) for a, b in zip(ours, theirs)]
late = "not all epochs"
if complete:
    state, other = (dict(tensors(folder + "/checkpoint/state.safetensors")) for folder in (run, reference))
    crops = [set(zip(s["mined"][::2], s["mined"][1::2])) for s in (state, other)]  # pairs of image and seed
    # weights alone: momentum and statistics follow them
    names = [n for n in other if other[n].typecode == "f" and not n.startswith(("velocity", "queue", "average"))]
    apart = sum((a - b) ** 2 for n in names for a, b in zip(state[n], other[n])) ** 0.5
    length = sum(b * b for n in names for b in other[n]) ** 0.5
    late = (f"last mined set {100 * len(crops[0] & crops[1]) / max(1, len(crops[1])):.1f} % in common; "
            f"weights {apart / length:.1e} apart")
seconds = [sum(sum(e["seconds"].values()) for e in run[1:] or run) for run in (ours, theirs)]
print(f"{run:28s} loss of epoch 1 {ours[0]['loss']:.6f} (off by {losses[0]:.1e}), worst epoch {max(losses):.1e}; "
      f"{late}; {seconds[0]:.2f} s against {seconds[1]:.2f} s "
      f"after the first epoch ({seconds[0] / seconds[1]:.2f} ×)")
sys.exit(not losses[0] <= tolerance)
PYTHON

bad=0
pair() { # RUN REFERENCE TOLERANCE KEY=VALUE...: two processes, compared with one
  if ! train "$1" 2 "${@:4}"; then
    bad=1
  elif ! python3 compare.py "$1" "$2" "$3"; then
    echo "$1: NOT the result of $2"
    bad=1
  fi
}

# float32 and global BatchNorm: the training of one process up to rounding. bf16 uses the DenseNet kernels; with two
# processes only local BatchNorm does, which is another training, so only its time is of interest.
fast=(train.deterministic=false)
[ "$device" = cpu ] || fast+=(train.precision=bf16)
train one 1 train.precision=float32
train one-fast 1 "${fast[@]}"
pairs() { # NAME
  pair "two-$1" one 1e-3 train.precision=float32
  grep -hs "share a GPU" "two-$1.log" || echo "no line says that the ranks share a GPU"
  pair "two-$1-fast-global" one-fast 2e-2 "${fast[@]}"
  pair "two-$1-fast-local" one-fast 1 "${fast[@]}" train.batch_norm=local
}
pairs plain
if [ "$device" = cpu ] || ! command -v nvidia-cuda-mps-control >/dev/null; then
  echo "no MPS here"
elif nvidia-cuda-mps-control -d; then
  mps_runs=yes
  pairs mps
  stop_mps
else
  echo "MPS does not start here"
fi

# A killed rank: how long the other one takes to end, what is said, and whether the run goes on.
if [ $SECONDS -ge "$total" ]; then
  echo "rank 1 killed: not tried, $SECONDS s are over"
  exit $bad
fi
"$program" --quiet --device "$device" launch --nproc 2 train config.yaml --out killed --set train.epochs=4 2>killed.log &
job=$!
begun=$SECONDS
while [ ! -e killed/checkpoint/state.safetensors ] && [ $((SECONDS - begun)) -lt "$part" ]; do
  sleep 0.1
  kill -0 $job || break
done
for process in $(pgrep -P $job); do
  if tr '\0' '\n' <"/proc/$process/environ" | grep -qx RANK=1; then kill -9 "$process"; fi
done
start=$(date +%s)
code=0
while kill -0 $job 2>/dev/null && [ $(($(date +%s) - start)) -lt "$part" ]; do sleep 0.1; done
ranks=$(pgrep -P $job || true)
if kill -9 $job 2>/dev/null; then
  echo "the other rank still runs after $part s"
  [ -z "$ranks" ] || kill -9 $ranks 2>/dev/null || true
  bad=1
fi
wait $job || code=$?
echo "rank 1 killed: exit code $code after $(($(date +%s) - start)) s; stderr:"
sed 's/^/  /' killed.log
limited "$program" --quiet --device "$device" launch --nproc 2 train --resume killed >killed.out 2>killed.log ||
  { echo "the killed run does not go on, or not within $part s:"; tail -3 killed.log; bad=1; }
[ $bad = 0 ] && echo "ok"
exit $bad
