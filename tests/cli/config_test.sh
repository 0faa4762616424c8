# Config files and --set: what is printed is accepted, mistakes are named with their line and the nearest valid key.
source "$(dirname "$0")/common.sh"

"$sources/scripts/write-config-reference" "$program" >config.md
cmp config.md "$sources/docs/config.md" || fail "docs/config.md is stale: make docs"
rm config.md

expect_ok config
cp "$logs/out" all.yaml
# What 'poem config' prints is a config: the first thing missing in it is the data.
expect_error all.yaml data.train missing -- train all.yaml --out run
write_flat_config flat.yaml
expect_ok train flat.yaml --out run
cp run/config.yaml resolved.yaml
expect_ok train resolved.yaml --out run2
cmp run/config.yaml run2/config.yaml
cmp run/detector.safetensors run2/detector.safetensors
rm -r run run2

bad() { # WORDS... -- TEXT: the text is a config with a mistake
  local words=()
  while [ "$1" != -- ]; do
    words+=("$1")
    shift
  done
  printf '%b' "$2" >bad.yaml
  expect_error bad.yaml "${words[@]}" -- train bad.yaml --out run
}
bad ":2:" "train.epoch" "nearest is 'train.epochs'" -- 'train:\n  epoch: 3\n'
bad ":2:" "train.epochs is 0" "1 … 1000000" -- 'train:\n  epochs: 0\n'
bad ":1:" "train.epochs" "many" "integer" -- 'train: {epochs: many}\n'
bad ":1:" "train.epochs" "1.5" "integer" -- 'train: {epochs: 1.5}\n'
bad ":1:" "train.epochs" "[1]" "integer" -- 'train: {epochs: [1]}\n'
bad ":1:" "train.learning_rate" "nan" -- 'train: {learning_rate: .nan}\n'
bad ":1:" "train.milestones" "0.5" "list of numbers" -- 'train: {milestones: 0.5}\n'
bad ":1:" "data.skip_bad" "perhaps" "true or false" -- 'data: {skip_bad: perhaps}\n'
bad ":1:" "mining.miner" "thomson" "nearest is 'thompson'" -- 'mining: {miner: thomson}\n'
bad ":2:" "seed" "twice" -- 'seed: 1\nseed: 2\n'
bad ":3:" "not valid YAML" -- 'seed: 1\nscore: energy\n  train: [1, 2\n'
bad ":1:" "anchor contains itself" "write the value out" -- 'data: &x {train: *x}\n'
bad ":3:" "second YAML document" "---" -- 'seed: 1\n---\nseed: 2\n'
bad ":1:" "[1, 2]" "not a key" -- '[1, 2]: 3\n'
bad "not a map" -- 'only text\n'
bad ":1:" "data is 'own'" "section" "poem config" -- 'data: own\n'
bad ":1:" "train is '[1, 2]'" "section" -- 'train: [1, 2]\n'
bad ":1:" "data.train is '[a, b]'" "text" -- 'data: {train: [a, b]}\n'
bad ":1:" "data.train.epochs" -- 'data: {train: {epochs: 3}}\n'
bad ":1:" "seed" "integer" -- 'seed: \x01\x02\n'
bad ":2:" "train.epochs" "integer" -- 'mining:\ntrain: {epochs: ~}\n' # a section may be empty, a key not
bad "data.train" "missing" -- ''
bad "data.outliers" "missing" "mining.miner" -- 'data: {train: "world:train:8"}\n'
bad "format 2" "this poem knows 1" -- 'format: 2\n'

set_error() { # WORDS... -- ASSIGNMENT
  local words=("${@:1:$#-2}")
  expect_error "${words[@]}" -- train flat.yaml --out run --set "${@: -1}"
}
rm bad.yaml
set_error "--set train.epochs" "'='" -- train.epochs
set_error "train.epoch" "nearest is 'train.epochs'" -- train.epoch=3
set_error "nearest are 'queue.epochs' and 'train.epochs'; 'poem config' lists all" -- epochs=3
set_error "unknown key 'zebra' (nearest is '" "'poem config' lists all)" -- zebra=0.1
set_error "train.batch is -1" "1 … 1000000" -- train.batch=-1
set_error "train.batch" "99999999999999999999" -- train.batch=99999999999999999999
set_error "seed" "x" "integer" -- seed=x
set_error "score" "enrgy" "nearest is 'energy'" -- score=enrgy
set_error "network.mean" "list" -- network.mean=3
set_error "not valid YAML" -- 'network.mean=[1'
set_error "network.mean" "network.std" "length" -- 'network.mean=[1]'
set_error "network.std" "0" -- 'network.std=[0, 0]'
set_error "train.milestones" "ascend" -- 'train.milestones=[0.9, 0.5]'
set_error "data.ood" "data.test" -- 'data.ood=[]'
expect_error "missing.yaml" "No such file" -- train missing.yaml --out run
expect_error "is a folder" -- train / --out run
