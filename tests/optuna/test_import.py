"""What importing the adapter loads."""

from tests.test_imports import python


def test_it_loads_no_other_host():
    hosts = ("ax", "skopt")
    loaded = python(f"import sys, mkbo_plugins.optuna; print(*[name for name in {hosts} if name in sys.modules])")
    assert loaded == ""
