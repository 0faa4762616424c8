# mpirun, torchrun and srun start poem: two processes each give the figures of one. What is not installed is skipped.
source "$(dirname "$0")/teams.sh"
need_teams
write_flat_config flat.yaml
expect_ok train flat.yaml --out one

# starts NAME COMMAND...: as a user would start two processes. MASTER_PORT is left to the starter and to poem.
starts() {
  local name=$1
  "${@:2}" "$program" --threads 1 train flat.yaml --out "$name" >"$logs/out" 2>&1 || fail "$name: $(tail -5 "$logs/out")"
  expect_words "$logs/out" "2 ranks sent"
  expect_same "$(grep -c 'epoch   1/2' "$logs/out")" 1
  expect_like "$name" one
  echo "$name: ok"
}

if command -v mpirun >/dev/null; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  starts mpirun mpirun --oversubscribe -n 2
else
  echo "mpirun is not installed (openmpi-bin): skipped"
fi

# Debian's torchrun knows no default of -r and -t with Python 3.11.
if [ -x /usr/bin/torchrun ]; then
  starts torchrun /usr/bin/torchrun --no_python -r 1 -t 1 --nproc_per_node 2
else
  echo "torchrun is not installed (python3-torch): skipped"
fi

if command -v srun >/dev/null && grep -q UP <<<"$(timeout 5 scontrol ping 2>/dev/null)"; then
  starts srun srun --ntasks 2 --overcommit
else
  echo "no Slurm answers here: srun is skipped; tests/dist_team_test.cpp tests its variables"
fi
