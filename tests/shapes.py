"""The type checker of runs that check shapes: `pytest --jaxtyping-packages=mkbo_plugins.core,tests.checked`.

It leaves all annotations but those of arrays to mypy, since tests of messages give functions values of wrong types.
"""

from collections.abc import Callable
from typing import Any, get_args

from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray

LENIENT = BeartypeConf(is_pep484_tower=True)  # a whole number is a float


def has_shape(hint: Any) -> bool:
    return (isinstance(hint, type) and issubclass(hint, AbstractArray)) or any(map(has_shape, get_args(hint)))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that raises where an array does not have its shape and dtype."""
    function.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if has_shape(hint)}
    return beartype(function, conf=LENIENT)
