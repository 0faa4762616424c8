# poem bench and poem plan: constants of this machine, and what an epoch takes with them.
source "$(dirname "$0")/common.sh"

config=$sources/configs/demo.yaml
expect_ok plan "$config" --gpus 8 --images 2000
expect_words "$logs/out" "score the pool" "choose outliers" "train" "queue" "epoch" "8 x h200; 2000 ID images" "Constants: "
# The demo's network was not measured on that machine, and plan says so.
expect_words "$logs/out" "wideresnet was not measured there" "poem bench"

# The file of bench is one that plan takes, and the picture is one.
small=(--set train.batch=4 --set train.outlier_batch=4 --set data.size=16)
expect_ok bench "$config" --out machine.json "${small[@]}"
expect_ok plan "$config" --machine machine.json --svg plan.svg --json "${small[@]}"
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

expect_error "CPU with" "between hosts" "host_link_bytes_per_s" -- plan "$config" --machine machine.json --gpus 2
expect_error "absent.json" -- plan "$config" --machine absent.json
expect_error "--gpus" "'0'" -- plan "$config" --gpus 0
expect_error "absent.yaml" -- plan absent.yaml
expect_error "nowhere" "cannot be written" -- bench "$config" --out other.json --disk nowhere
