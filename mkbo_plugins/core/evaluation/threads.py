"""Threads for work in NumPy, whose elementwise functions use only one."""

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from mkbo_plugins.core.arrays import Array, chunks

WORTHWHILE = 1 << 22
"""Exponentials or similar operations from which on starting threads pays."""

T = TypeVar("T")
_alone = threading.Lock()


def in_threads(function: Callable[[slice], T], count: int, largest: int, work: int, like: Array) -> list[T]:
    """Return the results of a function for consecutive runs of rows.

    NumPy arrays use as many threads as BLAS may, so that ``OMP_NUM_THREADS`` and the limits of joblib and threadpoolctl
    hold; PyTorch has threads of its own.

    Parameters
    ----------
    function
        Function of a slice of rows that calls no BLAS routine worth several threads.
    count
        Number of rows.
    largest
        Largest run.
    work
        Number of operations in all.
    like
        An array of the kind that is worked on.
    """
    threads = _blas_threads() if isinstance(like, np.ndarray) and work >= WORTHWHILE else 1
    parts = chunks(count, min(largest, math.ceil(count / threads)))
    # The limit on BLAS is global, so that only one caller at a time may set and restore it.
    if threads == 1 or len(parts) == 1 or not _alone.acquire(blocking=False):
        return [function(part) for part in parts]
    try:
        with _controller().limit(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
            return list(pool.map(function, parts))
    finally:
        _alone.release()


def _blas_threads() -> int:
    return max((pool["num_threads"] for pool in _controller().info() if pool["user_api"] == "blas"), default=1)


@lru_cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
