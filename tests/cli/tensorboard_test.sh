# The event file for TensorBoard says what metrics.jsonl says, also after a kill.
source "$(dirname "$0")/common.sh"
check() { python3 "$sources/tests/cli/read_events.py" "$1" 2>"$logs/read" || fail "$(cat "$logs/read")"; }

# Results every second epoch; nothing to overlap with in the first. A name that is no ASCII is a tag like any other.
write_flat_config flat.yaml
set=(--set train.epochs=4 --set train.evaluate_every=2 --set 'data.ood=[ring=world2d:ood:50, a ü=world2d:ood:40]')
expect_ok train flat.yaml --out run "${set[@]}"
expect_same "$(check run)" "6 events, $((4 * 23 - 1 + 2 * (3 * 5 + 2 * 2 + 1))) values"
cp -r run copy

# No outliers: figures that do not apply are left out.
expect_ok train flat.yaml --out none --set mining.miner=none --set objective.name=cross_entropy
expect_same "$(check none)" "2 events, $((2 * 10)) values"

# What a kill may leave: half a record, or an epoch that the checkpoint does not hold.
events=$(ls run/events.out.tfevents.*)
cat "$events" >"$logs/whole"
head -c -7 "$logs/whole" >"$events"
! python3 "$sources/tests/cli/read_events.py" run 2>/dev/null || fail "a record cut short passes"
inode=$(stat -c %i "$events")
expect_ok train --resume run
cmp "$events" "$logs/whole"
tail -c 100 "$logs/whole" >>"$events"
expect_ok train --resume run
cmp "$events" "$logs/whole"
expect_same "$(stat -c %i "$events")" "$inode" # TensorBoard may have it open

# A flipped bit does not pass the reader: it can fail.
printf 'X' | dd of="$(ls copy/events.out.tfevents.*)" bs=1 seek=200 conv=notrunc 2>/dev/null
! python3 "$sources/tests/cli/read_events.py" copy 2>/dev/null || fail "a changed byte passes"

# Gone, it is written again.
rm "$events"
expect_ok train --resume run
check run >/dev/null

# Killed in the middle: each epoch once.
write_image_config image.yaml
"$program" --threads 1 train image.yaml --out killed >/dev/null 2>&1 &
child=$!
while [ "$(cat killed/metrics.jsonl 2>/dev/null | wc -l)" -lt 2 ] && kill -0 "$child" 2>/dev/null; do sleep 0.01; done
kill -9 "$child" 2>/dev/null || true
wait "$child" 2>/dev/null || true
expect_ok train --resume killed
read -r events _ _ _ <<<"$(check killed)"
expect_same "$events" 4
