"""Mines 50,000 of 400,000 rows, once for each line on standard input: Python's side of bench/python_bench.cpp."""

import os
import sys

os.environ["NUMPY_MADVISE_HUGEPAGE"] = "0"  # huge pages are faster, and LibTorch's side has none either

import numpy as np
import poem

POOL, ROWS, FEATURES = 400_000, 50_000, 342
rng = np.random.default_rng(1)
known, outliers, pool = (rng.standard_normal((rows, FEATURES), np.float32) for rows in [ROWS, ROWS, POOL])
outliers += 0.5
for _ in sys.stdin:
    chosen = poem.mine(known, outliers, pool, ROWS, seed=1).chosen
    print(len(chosen), flush=True)
