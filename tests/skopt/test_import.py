"""What importing the adapter needs and loads."""

from tests.test_imports import python


def test_missing_scikit_optimize_names_the_extra():
    script = """
import sys
sys.modules["skopt"] = None
import mkbo_plugins
try:
    import mkbo_plugins.skopt
except ImportError as error:
    print(error)
"""
    message = python(script)
    assert "mkbo_plugins[skopt]" in message
    assert "pip install" in message


def test_it_loads_no_other_host():
    hosts = ("torch", "botorch", "gpytorch", "ax")
    loaded = python(f"import sys, mkbo_plugins.skopt; print(*[name for name in {hosts} if name in sys.modules])")
    assert loaded == ""
