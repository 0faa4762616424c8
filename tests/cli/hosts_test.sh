# Ranks on two machines: namespaces with a network, a name, process numbers and a /dev/shm of their own, and with the
# /etc/hosts that Debian writes, in which a machine's own name is 127.0.1.1. Skipped where the system allows none.
if [ -z "${inside:-}" ]; then
  separate=(unshare --map-root-user --net --mount --pid --fork --kill-child --mount-proc)
  if ! command -v ip >/dev/null || ! "${separate[@]}" true 2>/dev/null; then
    echo "no ip (iproute2), or no namespaces here: skipped"
    exit 0
  fi
  inside=yes exec "${separate[@]}" bash "$0" "$@"
fi
source "$(dirname "$0")/teams.sh"
ip link set lo up
need_teams
write_flat_config flat.yaml
expect_ok train flat.yaml --out one

declare -A inhabitant # by host: a process there
start_host() { # NAME OTHER ITS_ADDRESS
  printf '127.0.0.1 localhost\n127.0.1.1 %s\n%s %s\n' "$1" "$3" "$2" >"$top/hosts.$1"
  unshare --net --uts --mount --pid --fork --mount-proc bash -c "hostname $1 && mount --bind $top/hosts.$1 /etc/hosts &&
    mount -t tmpfs none /dev/shm && ip link set lo up && touch $top/up.$1 && exec sleep 1000" &
  for ((i = 0; i < 1500; ++i)); do
    [ -e "$top/up.$1" ] && break
    sleep 0.02
  done
  [ -e "$top/up.$1" ] || fail "the machine $1 did not start within 30 s"
  inhabitant[$1]=$(pgrep -P $!)
  disown # it ends with this test
}
on() { # HOST COMMAND...
  nsenter --target "${inhabitant[$1]}" --net --uts --mount --pid "${@:2}"
}
start_host east west 10.0.0.2
start_host west east 10.0.0.1
ip link add name wire netns "${inhabitant[east]}" type veth peer name cable netns "${inhabitant[west]}"
on east ip addr add 10.0.0.1/24 dev wire
on west ip addr add 10.0.0.2/24 dev cable
on east ip link set wire up
on west ip link set cable up

# ranks ADDRESS HOST... -- ARGUMENTS...: rank r on the r-th host; codes[r] is its exit code, $logs/r its stderr.
ranks() {
  local address=$1 hosts=() children=() rank
  local -A seen=() # ranks, by host
  shift
  while [ "$1" != -- ]; do
    hosts+=("$1")
    shift
  done
  for rank in "${!hosts[@]}"; do
    local host=${hosts[rank]}
    local local_rank=${seen[$host]:-0}
    seen[$host]=$((local_rank + 1))
    on "$host" env --chdir="$PWD" GLOG_minloglevel=3 RANK=$rank WORLD_SIZE=${#hosts[@]} \
      LOCAL_RANK=$local_rank MASTER_ADDR="$address" MASTER_PORT=29500 \
      "$program" --quiet --threads 1 train "${@:2}" >"$logs/out" 2>"$logs/$rank" &
    children+=($!)
  done
  codes=()
  for rank in "${!hosts[@]}"; do
    local code=0
    wait "${children[rank]}" || code=$?
    codes+=($code)
  done
}

# By name and by number; one machine or both have several ranks.
number=0
for place in "east east west" "10.0.0.1 east west" "east east west east" "east east west west"; do
  ranks $place -- flat.yaml --timeout 20 --out "two$((++number))"
  [[ "${codes[*]}" =~ ^[0\ ]*$ ]] || fail "$place: exit codes ${codes[*]}: $(cat "$logs"/[0-9])"
  expect_like "two$number" one
done

# An interface that one machine lacks: the others do not wait until the timeout.
SECONDS=0
GLOO_SOCKET_IFNAME=wire ranks 10.0.0.1 east west east -- flat.yaml --timeout 30 --out wire
expect_same "${codes[*]}" "2 2 2"
cat "$logs"/[0-2] >"$logs/err"
expect_one_line "rank 1 cannot reach the other processes" "wire" "GLOO_SOCKET_IFNAME"
[ $SECONDS -lt 15 ] || fail "that took $SECONDS s"

# A machine that finds no way to the address of rank 0, here for datagrams only.
if on west ip rule add ipproto udp unreachable 2>/dev/null; then
  SECONDS=0
  ranks 10.0.0.1 east west east -- flat.yaml --timeout 30 --out nowhere
  expect_same "${codes[*]}" "2 2 2"
  cat "$logs"/[0-2] >"$logs/err"
  expect_one_line "rank 1 cannot reach the other processes" "there is no route to 10.0.0.1"
  [ $SECONDS -lt 15 ] || fail "that took $SECONDS s"
  on west ip rule del ipproto udp unreachable
fi

# A link that fails: each machine names the ranks that it no longer reaches.
sed -i 's/epochs: 2/epochs: 4000/' flat.yaml
ranks 10.0.0.1 east west west -- flat.yaml --out cut --timeout 3 &
epochs() { cat cut/metrics.jsonl 2>/dev/null | wc -l; }
for ((i = 0; i < 3000; ++i)); do
  [ "$(epochs)" -lt 3 ] || break
  sleep 0.02
done
[ "$(epochs)" -ge 3 ] || fail "$(epochs) of 3 epochs within 60 s: $(cat "$logs"/[0-2])"
on west ip link set cable down
wait $!
expect_words "$logs/0" "rank 1 (process" "rank 2 (process" "on west" "have not answered"
expect_same "$(cat "$logs/1" "$logs/2" | grep -c .)" 1
cat "$logs/1" "$logs/2" >"$logs/err"
expect_one_line "rank 0 (process" "on east" "cannot be reached" "continue from the checkpoint"

echo "ok"
