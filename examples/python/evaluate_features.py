"""Evaluates every post-hoc score on saved features, as OpenOOD does.

    python3 evaluate_features.py FOLDER

FOLDER contains train.npy (features of ID training inputs), labels.npy (their classes), weight.npy and bias.npy (the
network's last layer), id.npy (features of ID test inputs) and ood/NAME.npy for each set of OOD test inputs.
"""

import sys
from pathlib import Path

import numpy as np
import poem

folder = Path(sys.argv[1])
train, labels, weight, bias, known = (
    np.load(folder / f"{name}.npy") for name in ["train", "labels", "weight", "bias", "id"]
)
ood_sets = {path.stem: np.load(path) for path in sorted((folder / "ood").glob("*.npy"))}

print(f"{'score':10}{'OOD set':12}{'FPR95':>8}{'AUROC':>8}{'AUPR in':>9}{'AUPR out':>10}")
for name in poem.score_names():
    score = poem.Score(name).fit(train, labels, weight, bias)
    known_scores = score.score(known)
    for set_name, features in ood_sets.items():
        m = poem.metrics.ood_metrics(known_scores, score.score(features))
        figures = f"{m.fpr95:8.2%}{m.auroc:8.2%}{m.aupr_in:9.2%}{m.aupr_out:10.2%}"
        print(f"{name:10}{set_name:12}{figures}")
