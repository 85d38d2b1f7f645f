"""The covariance models an optimiser can use, by name: what each is made of, and how it is combined.

Each combines components of a pre-trained covariance with the host's own stock covariance on ordinary inputs, by scales
that the host learns. The same form means the same model in every host.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial, reduce
from operator import or_
from types import MappingProxyType
from typing import NamedTuple

from mkbo_plugins.core.arrays import Array
from mkbo_plugins.core.priors import HYPERPARAMETERS, Hyperparameter
from mkbo_plugins.core.reweighted.two_layer import rational_quadratic_profile, squared_exponential_profile
from mkbo_plugins.errors import KernelError


class Key(NamedTuple):
    """What the name of a part or scale stands for.

    Parameters
    ----------
    name
        Its plain name, which is the same for every table.
    table
        The table it belongs to, counting from 0; None where there is a single table, or where tables share it.
    """

    name: str
    table: int | None


@dataclass(frozen=True)
class Form:
    """A covariance model.

    Parameters
    ----------
    parts
        The components it uses, by the names under which `combine` and hosts have them.
    scales
        The learned scales it has, by such names.
    uses_stock
        Whether the host's stock covariance is a part of it.
    combine
        Function of the parts, the stock covariance (None where unused) and the scales, elementwise.
    """

    parts: Mapping[str, Key]
    scales: Mapping[str, Key]
    uses_stock: bool
    combine: Callable[[Mapping[str, Array], Array, Mapping[str, Array]], Array]

    @cached_property
    def hyperparameters(self) -> Mapping[str, Hyperparameter]:
        """Prior and bounds of each learned scale."""
        return {name: HYPERPARAMETERS[key.name] for name, key in self.scales.items()}

    def covariance(self, parts: Mapping[str, Array], stock: Array | None, scales: Mapping[str, Array]) -> Array:
        """Return what `combine` gives, times a stock covariance that the form itself does not use.

        Parameters that the table lacks, which only the stock covariance sees, thus count in every form.
        """
        value = self.combine(parts, stock, scales)
        return value if stock is None or self.uses_stock else value * stock


def of_table(name: str, index: int, tables: int) -> str:
    """Return the name of a part or scale of one of several tables; with a single table, its plain name."""
    return name if tables == 1 else f"{name}_{index + 1}"


@lru_cache
def _each(name: str, tables: int) -> Mapping[str, Key]:
    """Return the names of a part or scale, one for each table, with what they stand for."""
    return {of_table(name, index, tables): Key(name, index if tables > 1 else None) for index in range(tables)}


class _Names:
    """Names of parts and scales for a number of tables, and the terms that forms are sums and products of."""

    def __init__(self, tables: int) -> None:
        self.tables = tables

    def each(self, name: str) -> Mapping[str, Key]:
        return _each(name, self.tables)

    def scales(self, *names: str) -> dict[str, Key]:
        """Return one output scale, and the others once per table."""
        return reduce(or_, map(self.each, names), {"output_scale": Key("output_scale", None)})

    def weighed(self, part: str, scale: str, parts: Mapping[str, Array], scales: Mapping[str, Array]) -> Array:
        """Return the sum over tables of a scale times a part."""
        value = 0.0
        for of_scale, of_part in zip(_each(scale, self.tables), _each(part, self.tables), strict=True):
            value = value + scales[of_scale] * parts[of_part]
        return value

    def near(self, parts: Mapping[str, Array], scales: Mapping[str, Array]) -> Array:
        """Return the product over tables of the profile of the feature distance."""
        value = 1.0
        for d, s in zip(_each("feature_distance", self.tables), _each("feature_scale", self.tables), strict=True):
            value = value * squared_exponential_profile(parts[d], scales[s])
        return value

    def similar(self, parts: Mapping[str, Array], scales: Mapping[str, Array]) -> Array:
        """Return the sum over tables of a scale times the long-tailed profile of the feature distance."""
        distances, widths = _each("feature_distance", self.tables), _each("feature_scale", self.tables)
        value = 0.0
        for e, d, s in zip(_each("similarity_scale", self.tables), distances, widths, strict=True):
            value = value + scales[e] * rational_quadratic_profile(parts[d], scales[s])
        return value

    def linked(self, parts: Mapping[str, Array], scales: Mapping[str, Array]) -> Array:
        """Return the sum over tables of a scale times the profile of the difference of the decision function."""
        widths, value = _each("link_width", self.tables), 0.0
        for c, d, t in zip(
            _each("link_scale", self.tables), _each("decision_distance", self.tables), widths, strict=True
        ):
            value = value + scales[c] * squared_exponential_profile(parts[d], scales[t])
        return value


def _sum_form(part: str, names: _Names) -> Form:
    """Return the sum over tables of a part with its own scale; one table has a plain output scale."""
    scales = names.each("output_scale")
    return Form(names.each(part), scales, False, lambda p, k, h: names.weighed(part, "output_scale", p, h))


def _two_layer(names: _Names) -> Form:
    scales = names.scales("feature_scale")
    return Form(names.each("feature_distance"), scales, False, lambda p, k, h: h["output_scale"] * names.near(p, h))


def _of_terms(
    names: _Names, *, near: bool = False, similar: bool = False, moment: bool = False, link: bool = False
) -> Form:
    """Return a k, times the profile of the feature distance if `near`, plus what is added by K^E and by g.

    If `similar`, K^E adds k times a long-tailed profile of the feature distance, which data far from the table's points
    can still scale, and which can be turned down alone.
    """
    known = (
        (near, "feature_distance", ("feature_scale",)),
        (similar, "feature_distance", ("similarity_scale", "feature_scale")),
        (moment, "moment", ("moment_scale",)),
        (link, "decision_distance", ("link_scale", "link_width")),
    )
    terms = [(part, scales) for used, part, scales in known if used]
    parts = reduce(or_, (names.each(part) for part, _ in terms))
    scales = names.scales(*(scale for _, scales in terms for scale in scales))

    def combine(p: Mapping[str, Array], k: Array, h: Mapping[str, Array]) -> Array:
        value = h["output_scale"] * k
        value = value * names.near(p, h) if near else value
        value = value + k * names.similar(p, h) if similar else value
        value = value + names.weighed("moment", "moment_scale", p, h) if moment else value
        return value + names.linked(p, h) if link else value

    return Form(parts, scales, True, combine)


_FORMS: Mapping[str, Callable[[_Names], Form]] = MappingProxyType(
    {
        "stock": lambda names: Form({}, {}, True, lambda parts, stock, scales: stock),
        "base": partial(_sum_form, "base"),
        "reweighted": partial(_sum_form, "reweighted"),
        "normalised": partial(_sum_form, "normalised"),
        "two_layer": _two_layer,
        "moment": partial(_of_terms, moment=True),
        "product": partial(_of_terms, near=True),
        "transfer": partial(_of_terms, near=True, moment=True),
        "link": partial(_of_terms, moment=True, link=True),
        "transfer_link": partial(_of_terms, near=True, moment=True, link=True),
        "similarity_link": partial(_of_terms, similar=True, moment=True, link=True),
    }
)

FORMS = tuple(_FORMS)
"""Names of the covariance models. With k the stock covariance, d the feature distance and g the standardised decision
function: ``stock``, k; ``base``, a K_2; ``reweighted``, a K^E; ``normalised``, a K^E normalised; ``two_layer``,
a exp(-d^2 / (2 s)); ``moment``, a k + b g g'; ``product``, a k exp(-d^2 / (2 s)); ``transfer``,
a k exp(-d^2 / (2 s)) + b g g'; ``link``, a k + b g g' + c exp(-(g - g')^2 / (2 t)), whose last term is any smooth
function of the table's prediction; ``transfer_link``, ``transfer`` and that term; ``similarity_link``, ``link`` and
e k / (1 + d^2 / (2 s)).

Several tables each have their own d, g, s, b, c, t and e: terms are summed, and factors exp(-d^2 / (2 s)) multiplied;
``base``, ``reweighted`` and ``normalised`` have an a for each table too."""


DEFAULT_FORM = "similarity_link"
"""The form that hosts use unless told otherwise; the page on the benchmark says what speaks for it."""


def get_form(name: str, tables: int = 1) -> Form:
    """Return the form called `name` for a number of tables.

    Raises
    ------
    KernelError
        If there is none of this name.
    """
    if not isinstance(name, str) or name not in _FORMS:
        given = repr(name) if isinstance(name, str) else type(name).__name__
        raise KernelError(f"form must be one of {list(FORMS)}, got {given}")
    return _form(name, tables)


@lru_cache
def _form(name: str, tables: int) -> Form:
    return _FORMS[name](_Names(tables))
