"""Work on several threads where NumPy uses one."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from mkbo_plugins.core.evaluation import threads
from mkbo_plugins.core.evaluation.threads import WORTHWHILE, in_threads


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def names(part):
    """Return the name of the thread and the number of threads that BLAS may use in it."""
    return threading.current_thread().name, max(blas_threads()), part


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(threads, "_blas_threads", lambda: 2)


@pytest.mark.usefixtures("two_threads")
def test_rows_are_shared_in_order_and_blas_is_left_one_thread_each():
    before = blas_threads()
    found = in_threads(names, 10, 3, WORTHWHILE, np.ones(1))
    assert [part for *_, part in found] == [slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 10)]
    assert threading.current_thread().name not in {name for name, *_ in found}
    assert {limit for _, limit, _ in found} == {1}
    assert blas_threads() == before
    assert [part for *_, part in in_threads(names, 10, 100, WORTHWHILE, np.ones(1))] == [slice(0, 5), slice(5, 10)]


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("work", "like"), [(WORTHWHILE - 1, np.ones(1)), (WORTHWHILE, torch.ones(1))])
def test_little_work_and_tensors_stay_in_the_callers_thread(work, like):
    found = in_threads(names, 10, 5, work, like)
    assert {name for name, *_ in found} == {threading.current_thread().name}


def test_limits_of_the_user_hold():
    with threadpool_limits(1, user_api="blas"):
        found = in_threads(names, 10, 5, WORTHWHILE, np.ones(1))
    assert {name for name, *_ in found} == {threading.current_thread().name}


@pytest.mark.usefixtures("two_threads")
def test_callers_at_the_same_time_restore_the_limits():
    before = blas_threads()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: in_threads(names, 10, 2, WORTHWHILE, np.ones(1)), range(50)))
    assert all([part for *_, part in parts] == [part for *_, part in found[0]] for parts in found)
    assert blas_threads() == before


@pytest.mark.usefixtures("two_threads")
def test_an_error_reaches_the_caller_and_restores_the_limits():
    before = blas_threads()
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda part: 1 // part.start, 10, 5, WORTHWHILE, np.ones(1))
    assert blas_threads() == before
    assert in_threads(lambda part: part.start, 10, 5, WORTHWHILE, np.ones(1)) == [0, 5]
