# poem bench and poem plan: constants of this machine, and what an epoch takes with them.
source "$(dirname "$0")/common.sh"

config=$sources/configs/demo.yaml
expect_ok plan "$config" --gpus 8 --images 2000
expect_words "$logs/out" "score the pool" "choose outliers" "train" "queue" "epoch" "8 x h200; 2000 ID images" "Constants: "
# The demo's network was not measured on that machine, and plan says so.
expect_words "$logs/out" "wideresnet was not measured there" "poem bench"

# Miners that compare outliers score the whole pool on every device. The constants of h200 are in docs/scale.md.
score() { # ARGUMENTS...: prints the phase of scoring
  expect_ok plan "$sources/configs/cifar10-poem.yaml" --gpus 8 --json --set mining.pool=100000000 "$@"
  python3 -c 'import json, sys; score = json.load(sys.stdin)["phases"][0]; print(round(score["seconds"], 1), round(score["disk_bytes_per_host"] / 1e9, 1))' <"$logs/out"
}
expect_same "$(score)" "77.4 307.2"
expect_same "$(score --set mining.miner=greedy --set score=energy)" "77.4 307.2"
expect_same "$(score --set mining.miner=dos --set score=energy)" "619.0 307.2"
expect_same "$(score --image-bytes 12288)" "245.8 1228.8" # the disk limits it

# The file of bench is one that plan takes, and the picture is one.
small=(--set train.batch=4 --set train.outlier_batch=4 --set data.size=16)
expect_ok bench "$config" --out machine.json "${small[@]}"
expect_ok plan "$config" --machine machine.json --images 2000 --svg plan.svg --json "${small[@]}"
expect_words plan.svg "<svg" "images in the pool" "1 device"
python3 - "$logs/out" machine.json <<'PYTHON'
import json, math, sys
plan, machine = (json.load(open(path)) for path in sys.argv[1:])
phases = {phase["phase"]: phase for phase in plan["phases"]}
speed = machine["networks"][0]
# The demo's pool of 12,000, at the speed that was measured.
assert math.isclose(phases["score the pool"]["seconds"], 12000 / speed["forward_images_per_s"], rel_tol=1e-6), phases
assert math.isclose(phases["epoch"]["seconds"], sum(p["seconds"] for n, p in phases.items() if n != "epoch"), rel_tol=1e-9)
assert machine["disk_bytes_per_s"] > 0 and speed["step_s"] > 0
PYTHON
expect_same "$(ls)" "$(printf 'machine.json\nplan.svg')" # bench leaves nothing else

expect_error "CPU with" "has 1 device per host" "if one machine has 2, run poem bench on 2 processes of it;" \
  "give host_link_bytes_per_s" -- plan "$config" --machine machine.json --gpus 2 --images 2000
# Of a frozen backbone a step takes as long as features do, and only the last layer's gradients are summed.
frozen() { # ARGUMENTS...: prints seconds of training and bytes per device and step on two devices
  expect_ok plan "$sources/configs/cifar10-poem.yaml" --gpus 2 --json "$@"
  python3 -c 'import json, sys; train = json.load(sys.stdin)["phases"][2]; print(round(train["seconds"], 2), round(train["message_bytes_per_device"] / 782))' <"$logs/out"
}
large=(--set train.batch=64 --set train.outlier_batch=6400 --set train.freeze=backbone --set network.init=absent.pth)
# 782 * 6464 / (2 * 161542) s and 3 messages; 4 * (342 * 10 + 10), 8, and half of 4 * 10 * 6464 bytes.
expect_same "$(frozen "${large[@]}")" "15.68 143008"
expect_same "$(frozen "${large[@]}" --classes 100)" "15.69 $((4 * 34300 + 8 + 2 * 100 * 6464))"
# Points, grey images and networks for images of one size.
write_flat_config flat.yaml
expect_ok plan flat.yaml --images 100
expect_ok plan "$config" --images 2000 --set network.mean=[100] --set network.std=[60]
rm flat.yaml

# What train would refuse.
expect_error "mining.select" "13000 outliers" "the pool offers only 12000" "mining.pool" -- plan "$config" --set mining.select=13000
expect_error "mining.select" "offers only 6000" -- plan "$config" --set mining.select=6001 --set mining.skip=0.5
expect_error "mining.select" "for 50000 ID images" "--images" -- plan "$config"
expect_error "absent.json" -- plan "$config" --machine absent.json
expect_error "--gpus" "'0'" -- plan "$config" --gpus 0
expect_error "absent.yaml" -- plan absent.yaml
expect_error "map.yaml" "is a study" -- plan "$sources/configs/study/map.yaml"
expect_ok plan "$sources/configs/cifar10-poem.yaml" --gpus 1024
expect_words "$logs/out" "refuses more processes than train.batch"
expect_error "nowhere" "cannot be written" -- bench "$config" --out other.json --disk nowhere

# On several processes bench also measures the links between them, and plan uses them.
code=0
poem --quiet launch --nproc 2 bench "$config" --out pair.json "${small[@]}" >"$logs/out" 2>"$logs/err" || code=$?
if grep -q "built without" "$logs/err"; then
  echo "this poem was built without c10d: links are not tested"
  exit 0
fi
expect_same "$code" 0
expect_same "$(grep -c '"name"' "$logs/out")" 1 # rank 0 alone speaks
expect_words "$logs/out" "--machine pair.json --gpus 2"
expect_ok plan "$config" --machine pair.json --gpus 2 --json --images 2000 --set train.batch_norm=local "${small[@]}"
python3 - "$logs/out" pair.json <<'PYTHON'
import json, math, sys
plan, machine = (json.load(open(path)) for path in sys.argv[1:])
assert machine["devices_per_host"] == 2 and 0 < machine["link_latency_s"] < 10 and machine["link_bytes_per_s"] > 1e3, machine
assert machine["host_link_bytes_per_s"] == 0, machine
train = next(phase for phase in plan["phases"] if phase["phase"] == "train")
speed, steps = machine["networks"][0], 500
sent = train["message_bytes_per_device"] / steps
# Per step two sums of two hops each, and a gather of one; at the end a mean and a variance of 7 BatchNorms.
messages = sent / machine["link_bytes_per_s"] + 5 * machine["link_latency_s"]
compute = max(speed["step_s"], 8 / (2 * speed["train_images_per_s"]))
assert math.isclose(train["seconds"], steps * (compute + messages) + 14 * 2 * machine["link_latency_s"], rel_tol=1e-6), (train, machine)
PYTHON
expect_error "has 2 devices per host" "run poem bench on 3 processes of it or raise devices_per_host" -- \
  plan "$config" --machine pair.json --gpus 3 --images 2000
sed -i 's/"devices_per_host": 2/"devices_per_host": 3/' pair.json
expect_ok plan "$config" --machine pair.json --gpus 3 --images 2000
