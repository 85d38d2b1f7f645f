"""What importing the adapter loads."""

from tests.test_imports import python


def test_it_loads_no_other_host():
    hosts = ("torch", "botorch", "gpytorch", "ax")
    loaded = python(f"import sys, mkbo_plugins.skopt; print(*[name for name in {hosts} if name in sys.modules])")
    assert loaded == ""
