# poem mine on files of features.
source "$(dirname "$0")/common.sh"

zero='\x00\x00\x00\x00' half='\x00\x00\x00\x3f' one='\x00\x00\x80\x3f' two='\x00\x00\x00\x40' three='\x00\x00\x40\x40'
minus='\x00\x00\x80\xbf' nan='\x00\x00\xc0\x7f'
npy id.npy '<f4' '2, 1' "$minus$minus"
npy out.npy '<f4' '1, 1' "$one"
npy pool.npy '<f4' '5, 1' "$three$half$minus$two$zero"
inputs=(--id id.npy --outliers out.npy --pool pool.npy)

# With one feature the order of -|w φ| is that of |φ|, whatever w was drawn: rows 4 (0), 1 (0.5), 2 (-1).
expect_ok mine "${inputs[@]}" --select 3 --seed 7 --out idx.npy --posterior post.npz --probabilities p.npy
expect_words "$logs/out" "2 ID and 1 outlier rows" mined pool
npy expected.npy '<i8' '3,' '\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00'
cmp idx.npy expected.npy
expect_same "$(grep -aoE '(mean|covariance|weights)\.npy' post.npz | sort -u | wc -l)" 3
expect_same "$(stat -c %s p.npy)" $((128 + 5 * 4))

# The same seed gives the same bytes, another one another draw.
expect_ok mine "${inputs[@]}" --select 3 --seed 7 --out again.npy --posterior again.npz
cmp post.npz again.npz
expect_ok mine "${inputs[@]}" --select 3 --seed 8 --out again.npy --posterior again.npz --force
! cmp -s post.npz again.npz || fail "two seeds, one posterior"

npy nan.npy '<f4' '2, 1' "$one$nan"
npy wide.npy '<f4' '1, 2' "$one$one"
npy flat.npy '<f4' '2,' "$one$one"
npy whole.npy '<i4' '2, 1' "$one$one"
npy none.npy '<f4' '0, 1' ''
npy short.npy '<f4' '3, 1' "$one"
head -c 20 id.npy >cut.npy
mine=(mine --select 2 --seed 1 --out new.npy --outliers out.npy)
expect_error "poem: --select: is 6, but pool.npy has 5 rows" "larger pool" -- mine "${inputs[@]}" --select 6 --seed 1 --out new.npy
expect_error "--select" "'0'" "at least 1" -- mine "${inputs[@]}" --select 0 --seed 1 --out new.npy
expect_error "--seed" "'-1'" "whole number of at least 0" -- mine "${inputs[@]}" --select 1 --seed -1 --out new.npy
expect_error "--scale" "'0'" "from 1e-12 to" -- mine "${inputs[@]}" --select 1 --seed 1 --out new.npy --scale 0
expect_error "--target" "'inf'" "from 1e-06 to 100" -- mine "${inputs[@]}" --select 1 --seed 1 --out new.npy --target inf
expect_error id.npy "is an input" "another name" -- mine "${inputs[@]}" --select 1 --seed 1 --out ./id.npy --force
expect_error new.csv "NAME.npy" -- mine "${inputs[@]}" --select 1 --seed 1 --out new.csv
expect_error post.npy "NAME.npz" -- mine "${inputs[@]}" --select 1 --seed 1 --out new.npy --posterior post.npy
expect_error p.txt "NAME.npy" -- mine "${inputs[@]}" --select 1 --seed 1 --out new.npy --probabilities p.txt
expect_error nan.npy "row 1" nan -- "${mine[@]}" --id nan.npy --pool pool.npy
expect_error nan.npy "row 1" nan -- "${mine[@]}" --id id.npy --pool nan.npy
expect_error wide.npy "2 features per row, expected 1" "same network" -- "${mine[@]}" --id id.npy --pool wide.npy
expect_error wide.npy "2 features per row, expected 1" -- "${mine[@]::7}" --id id.npy --outliers wide.npy --pool pool.npy
huge='\x9c\x75\x00\x88\x3c\xe4\x37\x7e' # 1e300: its square is no float64
npy huge.npy '<f8' '1, 1' "$huge"
expect_error "huge.npy, out.npy" "feature 0 is degenerate" "rescale" -- "${mine[@]}" --id huge.npy --pool pool.npy
expect_error post.npz "no array 'features'" "covariance, mean and weights" -- "${mine[@]}" --id post.npz --pool pool.npy
expect_error flat.npy "1 dimensions" -- "${mine[@]}" --id flat.npy --pool pool.npy
expect_error whole.npy "2 dimensions of int32" -- "${mine[@]}" --id whole.npy --pool pool.npy
expect_error none.npy "0 rows of 1" -- "${mine[@]}" --id none.npy --pool pool.npy
expect_error short.npy "4 bytes" -- "${mine[@]}" --id short.npy --pool pool.npy
expect_error cut.npy "header" -- "${mine[@]}" --id cut.npy --pool pool.npy
expect_error missing.npy "No such file" -- "${mine[@]}" --id missing.npy --pool pool.npy
expect_error "--prior-variance" -- "${mine[@]}" --id id.npy --pool pool.npy --prior-variance x
expect_error "iid,single" -- "${mine[@]}" --id id.npy --pool pool.npy --noise both

# Outputs: never replaced unasked, all or none, only where there is room and permission.
expect_error idx.npy "exists already" "--force" -- mine "${inputs[@]}" --select 1 --seed 1 --out idx.npy
expect_error post.npz "exists already" -- mine "${inputs[@]}" --select 1 --seed 1 --out new.npy --posterior post.npz
expect_error new.npy "two outputs" -- mine "${inputs[@]}" --select 1 --seed 1 --out new.npy --probabilities new.npy
expect_error "nowhere/new.npy" "folder does not exist" -- mine "${inputs[@]}" --select 1 --seed 1 --out nowhere/new.npy
expect_ok mine "${inputs[@]}" --select 1 --seed 1 --out idx.npy --force
(
  ulimit -f 0 # every write fails, as on a full disk
  poem mine "${inputs[@]}" --select 1 --seed 1 --out full.npy 2>&1 >/dev/null
) | cat >"$logs/err" || true
expect_words "$logs/err" "poem: full.npy: cannot write" "File too large" "free some space"
expect_same "$(find . -name 'full*')" ""
