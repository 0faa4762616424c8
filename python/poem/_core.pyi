"""The library for Python. Import it as poem."""

from os import PathLike
from typing import Any, Literal, NoReturn, Optional, Sequence, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

__version__: str

class OodMetrics:
    def __init__(self, only_from_ood_metrics: NoReturn) -> None: ...
    @property
    def fpr95(self) -> float: ...
    @property
    def auroc(self) -> float: ...
    @property
    def aupr_in(self) -> float: ...
    @property
    def aupr_out(self) -> float: ...
    @property
    def detection_error(self) -> float: ...
    @property
    def threshold(self) -> float: ...
    @property
    def id_count(self) -> int: ...
    @property
    def ood_count(self) -> int: ...

def ood_metrics(id_scores: ArrayLike, ood_scores: ArrayLike) -> OodMetrics: ...

class Posterior:
    def __init__(
        self,
        features: ArrayLike,
        targets: ArrayLike,
        *,
        prior_variance: float = 20,
        noise_variance: float = 0.5,
        scale: float = 1,
    ) -> None: ...
    @property
    def mean(self) -> NDArray[np.float64]: ...
    @property
    def covariance(self) -> NDArray[np.float64]: ...
    def draw(self, seed: int, count: Optional[int] = None) -> NDArray[np.float64]: ...

class Mined:
    def __init__(self, only_from_mine: NoReturn) -> None: ...
    @property
    def chosen(self) -> NDArray[np.int64]: ...
    @property
    def logits(self) -> NDArray[np.float32]: ...
    @property
    def weights(self) -> NDArray[np.float64]: ...
    @property
    def posterior(self) -> Posterior: ...

def mine(
    id: ArrayLike,
    outliers: ArrayLike,
    pool: ArrayLike,
    n: int,
    seed: int = 0,
    *,
    prior_variance: float = 20,
    noise_variance: float = 0.5,
    scale: float = 1,
    target: float = 3,
    target_noise: Literal["iid", "single"] = "iid",
) -> Mined: ...

class Score:
    def __init__(self, name: str) -> None: ...
    @property
    def name(self) -> str: ...
    def fit(
        self,
        features: Optional[ArrayLike] = None,
        labels: Optional[ArrayLike] = None,
        weight: Optional[ArrayLike] = None,
        bias: Optional[ArrayLike] = None,
    ) -> Score: ...
    def score(
        self, features: Optional[ArrayLike] = None, logits: Optional[ArrayLike] = None
    ) -> NDArray[np.float32]: ...

def score_names() -> list[str]: ...

class Detector:
    def __init__(self, only_from_load: NoReturn) -> None: ...
    @staticmethod
    def load(path: Union[str, bytes, PathLike[str], PathLike[bytes]]) -> Detector: ...
    @property
    def class_names(self) -> list[str]: ...
    @property
    def threshold(self) -> Optional[float]: ...
    @property
    def size(self) -> int: ...
    @property
    def score(self) -> str: ...
    def predict(
        self,
        images: Union[
            NDArray[np.uint8], str, PathLike[str], Sequence[Union[NDArray[np.uint8], str, PathLike[str]]]
        ],
    ) -> NDArray[Any]: ...
