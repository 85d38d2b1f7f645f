"""Bad input gets an error or a warning of this package that says which, what was found and what to do."""

import decimal
import warnings

import numpy as np
import pandas as pd
import pytest

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.core import (
    Exponential,
    Linear,
    Polynomial,
    SquaredExponential,
    TaylorSeries,
    normalise,
    reweight,
)
from mkbo_plugins.errors import (
    ArtefactError,
    FitError,
    GridEdgeWarning,
    KernelError,
    MkboError,
    MkboWarning,
    SpaceError,
    TableError,
    TableWarning,
)
from mkbo_plugins.space.parameters import Categorical, Numeric, Ordered
from tests.conftest import MIXED_SPACE, mixed_table

TABLE = mixed_table()
SPACE = ParameterSpace.from_dict(MIXED_SPACE)
RAW = SPACE.to_raw(TABLE)
Y = TABLE["strength"].to_numpy()
N = len(TABLE)
POINT = {"power": 300.0, "rate": 1e-3, "layers": 2, "gas": "Air"}
HUGE = 10**400
ONE = ParameterSpace.from_dict({"a": (0, 1)})


def describe(entry, name="a"):
    return lambda: ParameterSpace.from_dict({name: entry})


def train(table=TABLE, target="strength", space=SPACE, **settings):
    """Return a call that trains with cheap settings unless told otherwise."""
    cheap = {} if settings.get("trainer") == "gp" else {"C": 5.0, "sigma": 2.0, "epsilon": 0.05, "ard": False}
    return lambda: pretrain(table, target, space, **({"progress": False} | cheap | settings))


def with_cell(column, row, value, table=TABLE):
    changed = table.astype({column: object})
    changed.iloc[row, changed.columns.get_loc(column)] = value
    return changed


def raw_with(column, row, value):
    changed = RAW.copy()
    changed[row, SPACE.names.index(column)] = value
    return changed


def polynomial():
    return train(kernel="polynomial", ard=False)()


def only(column, table=TABLE):
    return table[[column, "strength"]]


DESCRIPTIONS = [
    # Spaces
    ("empty space", lambda: ParameterSpace.from_dict({}), SpaceError, ["at least one parameter"]),
    ("space from a list", lambda: ParameterSpace.from_dict([("a", (0, 1))]), SpaceError, ["mapping", "list"]),
    ("space of texts", lambda: ParameterSpace(("a",)), SpaceError, ["'a'", "from_dict"]),
    ("doubled name", lambda: ParameterSpace((Numeric("a", 0, 1), Numeric("a", 0, 2))), SpaceError, ["'a'", "differ"]),
    ("two names", describe(Numeric("b", 0, 1)), SpaceError, ["'a'", "'b'", "same name"]),
    ("name not text", describe((0, 1), 7), SpaceError, ["7", "text"]),
    ("name empty", describe((0, 1), ""), SpaceError, ["''", "non-empty"]),
    ("bounds reversed", describe((1, 0)), SpaceError, ["'a'", "(1, 0)", "swap"]),
    ("log bounds equal", describe((1e-9, 1.0000000000000003e-9, "log")), SpaceError, ["'a'", "1e-09", "further apart"]),
    ("bounds equal", describe((1, 1)), SpaceError, ["'a'", "(1, 1)", "constant"]),
    ("bound NaN", describe((0, float("nan"))), SpaceError, ["'a'", "nan", "finite"]),
    ("bound infinite", describe((0, float("inf"))), SpaceError, ["'a'", "inf", "finite"]),
    ("bound text", describe(("0", 1)), SpaceError, ["'a'", "'0'", "numbers"]),
    ("bound boolean", describe((False, 1)), SpaceError, ["'a'", "False", "numbers"]),
    ("bound None", describe((0, None)), SpaceError, ["'a'", "None", "numbers"]),
    ("bound beyond double", describe((0, HUGE)), SpaceError, ["'a'", "finite"]),
    ("bounds too far apart", describe((-1e308, 1e308)), SpaceError, ["'a'", "units"]),
    ("one bound", describe((1,)), SpaceError, ["'a'", "(1,)", "(low, high)"]),
    ("log bound zero", describe((0, 1, "log")), SpaceError, ["'a'", "(0, 1)", "raise the lower bound"]),
    ("log bound negative", describe((-1, 1, "log")), SpaceError, ["'a'", "-1", "above 0"]),
    ("integer bound fractional", describe((0.5, 3, "int")), SpaceError, ["'a'", "0.5", "whole"]),
    ("unknown flag", describe((0, 1, "logarithmic")), SpaceError, ["'a'", "'logarithmic'", "'log'"]),
    ("flag twice", describe((1, 2, "log", "log")), SpaceError, ["'a'", "'log'"]),
    ("flag boolean", describe((0, 1, True)), SpaceError, ["'a'", "True", "'int'"]),
    ("levels as tuple", describe(("x", "y", "z")), SpaceError, ["'a'", "'z'", "levels are written as a list"]),
    ("mapping flag text", describe({"bounds": [0, 1], "log": "yes"}), SpaceError, ["'a'", "'log'", "'yes'", "true"]),
    ("mapping of both", describe({"bounds": [0, 1], "levels": [1, 2]}), SpaceError, ["'a'", "'bounds'", "keys"]),
    ("mapping key unknown", describe({"bounds": [0, 1], "scale": 1}), SpaceError, ["'a'", "'scale'"]),
    ("mapping of three bounds", describe({"bounds": [0, 1, 2]}), SpaceError, ["'a'", "[0, 1, 2]", "two numbers"]),
    ("description text", describe("real"), SpaceError, ["'a'", "'real'", "expected (low, high)"]),
    ("one level", describe(["x"]), SpaceError, ["'a'", "two levels", "leave a constant out"]),
    ("no level", describe([]), SpaceError, ["'a'", "two levels"]),
    ("doubled level", describe(["x", "y", "x"]), SpaceError, ["'a'", "differ", "'x'"]),
    ("doubled numeric level", describe([1, 1.0, 2]), SpaceError, ["'a'", "differ"]),
    ("two numbers in a list", describe([0, 1]), SpaceError, ["'a'", "(0, 1)", "{'levels': [0, 1]}"]),
    ("levels not increasing", describe([3, 1, 2]), SpaceError, ["'a'", "[3, 1, 2]", "increase"]),
    ("level missing", describe(["x", None]), SpaceError, ["'a'", "None", "text, numbers or booleans"]),
    ("level NaN", describe([1.0, 2.0, float("nan")]), SpaceError, ["'a'", "nan"]),
    ("level beyond double", describe([1, 2, HUGE]), SpaceError, ["'a'", "levels must be"]),
    ("level a list", describe([["x"], ["y"]]), SpaceError, ["'a'", "['x']"]),
    ("Ordered backwards", lambda: Ordered("a", (2, 1)), SpaceError, ["'a'", "increase"]),
    ("Categorical single", lambda: Categorical("a", ("x",)), SpaceError, ["'a'", "two levels"]),
    ("unknown parameter", lambda: SPACE["speed"], SpaceError, ["'speed'", "'power'"]),
    ("frame of coordinates", lambda: SPACE.to_coordinates(RAW, "polar"), SpaceError, ["'polar'", "'centred'"]),
    ("columns of coordinates", lambda: SPACE.to_coordinates(RAW[:, :3]), SpaceError, ["4 columns", "'gas'", "got 3"]),
    ("sobol of a fraction", lambda: SPACE.sobol(2.5), SpaceError, ["n must be", "2.5"]),
    ("sobol of fewer than none", lambda: SPACE.sobol(-1), SpaceError, ["n must be", "-1"]),
    ("sobol seed negative", lambda: SPACE.sobol(4, -1), SpaceError, ["seed", "-1"]),
    ("sobol seed text", lambda: SPACE.sobol(4, "x"), SpaceError, ["seed", "'x'"]),
    ("from_raw level", lambda: SPACE.from_raw([[1, 1, 1, 3]]), SpaceError, ["'gas'", "0 to 2", "got 3"]),
    ("from_raw shape", lambda: SPACE.from_raw([1.0, 1.0, 1.0, 1.0]), SpaceError, ["(n, 4)", "(4,)"]),
    # Spaces of tables
    (
        "from_table no target",
        lambda: ParameterSpace.from_table(TABLE, "stress"),
        SpaceError,
        ["'stress'", "'strength'"],
    ),
    ("from_table no frame", lambda: ParameterSpace.from_table([[1]], "y"), SpaceError, ["DataFrame", "list"]),
    (
        "from_table doubled",
        lambda: ParameterSpace.from_table(TABLE[["power", "power", "strength"]], "strength"),
        SpaceError,
        ["'power'", "more than once", "rename"],
    ),
    (
        "from_table constant",
        lambda: ParameterSpace.from_table(only("power").assign(power=1.0), "strength"),
        SpaceError,
        ["'power'", "constant", "drop"],
    ),
    (
        "from_table all missing",
        lambda: ParameterSpace.from_table(only("power").assign(power=np.nan), "strength"),
        SpaceError,
        ["'power'", "empty"],
    ),
    (
        "from_table lists",
        lambda: ParameterSpace.from_table(only("power").assign(power=[[1]] * N), "strength"),
        SpaceError,
        ["'power'", "[1]", "numbers, text or booleans"],
    ),
    (
        "from_table dates",
        lambda: ParameterSpace.from_table(only("power").assign(power=pd.date_range("2020", periods=N)), "strength"),
        SpaceError,
        ["'power'", "Timestamp"],
    ),
    (
        "from_table infinite",
        lambda: ParameterSpace.from_table(with_cell("power", 3, np.inf), "strength"),
        SpaceError,
        ["'power'", "inf"],
    ),
    (
        "from_table numbered columns",
        lambda: ParameterSpace.from_table(pd.DataFrame(RAW), 3),
        SpaceError,
        ["text", "0"],
    ),
    ("from_table target only", lambda: ParameterSpace.from_table(TABLE[["strength"]], "strength"), SpaceError, ["one"]),
    # Points
    ("point lacks a name", lambda: SPACE.to_raw([{"power": 1}]), SpaceError, ["point 0", "'rate'", "'power'"]),
    ("point text", lambda: SPACE.to_raw([POINT, POINT | {"power": "300"}]), SpaceError, ["'power'", "'300'", "row 1"]),
    ("point boolean", lambda: SPACE.to_raw([POINT | {"power": True}]), SpaceError, ["'power'", "True", "numbers"]),
    ("point numpy boolean", lambda: SPACE.to_raw([POINT | {"power": np.True_}]), SpaceError, ["'power'", "True"]),
    ("point NaN", lambda: SPACE.to_raw([POINT | {"power": np.nan}]), SpaceError, ["'power'", "missing", "row 0"]),
    ("point None", lambda: SPACE.to_raw([POINT | {"power": None}]), SpaceError, ["'power'", "missing", "row 0"]),
    ("point NA", lambda: SPACE.to_raw([POINT | {"power": pd.NA}]), SpaceError, ["'power'", "missing", "row 0"]),
    ("point infinite", lambda: SPACE.to_raw([POINT | {"power": -np.inf}]), SpaceError, ["'power'", "-inf", "finite"]),
    ("point beyond double", lambda: SPACE.to_raw([POINT | {"power": HUGE}]), SpaceError, ["'power'", "finite"]),
    ("point array", lambda: SPACE.to_raw([POINT | {"power": np.ones(2)}]), SpaceError, ["'power'", "array"]),
    ("log value zero", lambda: SPACE.to_raw([POINT | {"rate": 0}]), SpaceError, ["'rate'", "got 0", "above 0"]),
    ("log value negative", lambda: SPACE.to_raw([POINT | {"rate": -1.5}]), SpaceError, ["'rate'", "-1.5", "log"]),
    ("integer fractional", lambda: SPACE.to_raw([POINT | {"layers": 2.5}]), SpaceError, ["'layers'", "2.5", "whole"]),
    ("level unknown", lambda: SPACE.to_raw([POINT | {"gas": "Neon"}]), SpaceError, ["'gas'", "'Neon'", "'Argon'"]),
    ("level by index", lambda: SPACE.to_raw([POINT | {"gas": 1}]), SpaceError, ["'gas'", "level 1", "'Argon'"]),
    (
        "level missing in point",
        lambda: SPACE.to_raw([POINT | {"gas": None}]),
        SpaceError,
        ["'gas'", "missing", "'Air'"],
    ),
    ("level NA", lambda: SPACE.to_raw([POINT | {"gas": pd.NA}]), SpaceError, ["'gas'", "missing", "row 0"]),
    ("level NaT", lambda: SPACE.to_raw([POINT | {"gas": pd.NaT}]), SpaceError, ["'gas'", "missing"]),
    ("level array", lambda: SPACE.to_raw([POINT | {"gas": np.array(["Air", "Air"])}]), SpaceError, ["'gas'", "array"]),
    ("array level index", lambda: SPACE.to_raw(raw_with("gas", 4, 7)), SpaceError, ["'gas'", "0 to 2", "7", "row 4"]),
    ("array level half", lambda: SPACE.to_raw(raw_with("gas", 4, 0.5)), SpaceError, ["'gas'", "index", "0.5", "row 4"]),
    ("array NaN", lambda: SPACE.to_raw(raw_with("power", 2, np.nan)), SpaceError, ["'power'", "missing", "row 2"]),
    ("array integer NaN", lambda: SPACE.to_raw(raw_with("layers", 2, np.nan)), SpaceError, ["'layers'", "row 2"]),
    ("array integer infinite", lambda: SPACE.to_raw(raw_with("layers", 2, np.inf)), SpaceError, ["'layers'", "inf"]),
    ("array narrow", lambda: SPACE.to_raw(RAW[:, :3]), SpaceError, ["(n, 4)", "'gas'", "(24, 3)"]),
    ("array flat", lambda: SPACE.to_raw([300, 1e-3, 2, 0]), SpaceError, ["(n, 4)", "(4,)"]),
    ("array ragged", lambda: SPACE.to_raw([[1, 2], [3]]), SpaceError, ["one length"]),
    ("array boolean", lambda: SPACE.to_raw(np.ones((2, 4), dtype=bool)), SpaceError, ["'power'", "True"]),
    ("nothing", lambda: SPACE.to_raw(None), SpaceError, ["(n, 4)"]),
    (
        "columns missing",
        lambda: SPACE.to_raw(TABLE.drop(columns=["gas", "rate"])),
        SpaceError,
        ["'rate', 'gas'", "missing"],
    ),
    (
        "columns doubled",
        lambda: SPACE.to_raw(pd.concat([TABLE, TABLE[["gas"]]], axis=1)),
        SpaceError,
        ["'gas'", "more than once", "drop"],
    ),
]

TABLES = [
    ("missing value", train(with_cell("power", 5, np.nan)), TableError, ["'power'", "row 5,", "missing='drop'"]),
    ("missing level", train(with_cell("gas", 7, None)), TableError, ["'gas'", "row 7,", "fill them in"]),
    ("missing target", train(with_cell("strength", 2, np.nan)), TableError, ["'strength'", "row 2,", "missing='drop'"]),
    ("infinite value", train(with_cell("power", 5, np.inf)), SpaceError, ["'power'", "inf", "row 5"]),
    ("infinite target", train(with_cell("strength", 5, -np.inf)), TableError, ["'strength'", "-inf", "row 5,"]),
    ("text value", train(with_cell("power", 5, "12 mW")), SpaceError, ["'power'", "'12 mW'", "row 5"]),
    ("text that looks like a number", train(with_cell("power", 5, "12")), SpaceError, ["'power'", "'12'", "row 5"]),
    ("text target", train(with_cell("strength", 5, "high")), TableError, ["'strength'", "'high'", "row 5,"]),
    ("boolean target", train(TABLE.assign(strength=Y > 5)), TableError, ["'strength'", "False", "numbers"]),
    ("complex target", train(TABLE.assign(strength=Y + 0j)), TableError, ["'strength'", "j", "numbers"]),
    (
        "decimal target",
        train(with_cell("strength", 1, decimal.Decimal(3))),
        TableError,
        ["'strength'", "Decimal", "row 1,"],
    ),
    ("target beyond double", train(with_cell("strength", 1, HUGE)), TableError, ["'strength'", "row 1,", "finite"]),
    ("target too large", train(TABLE.assign(strength=Y * 1e200)), TableError, ["'strength'", "e+200", "units"]),
    ("target too small", train(TABLE.assign(strength=Y * 1e-200)), TableError, ["'strength'", "e-200", "units"]),
    ("target overflowing", train(TABLE.assign(strength=np.resize([-1e308, 1e308, 0.0], N))), TableError, ["units"]),
    ("unknown level", train(with_cell("gas", 3, "Neon")), SpaceError, ["'gas'", "'Neon'", "'Argon'", "row 3"]),
    ("unhashable level", train(TABLE.assign(gas=[["Air"]] * N)), SpaceError, ["'gas'", "['Air']"]),
    ("fraction of an integer", train(with_cell("layers", 3, 1.5)), SpaceError, ["'layers'", "1.5", "row 3"]),
    ("log of zero", train(with_cell("rate", 3, 0.0)), SpaceError, ["'rate'", "0.0", "above 0", "row 3"]),
    ("missing column", train(TABLE.drop(columns="gas")), SpaceError, ["'gas'", "missing", "'power'"]),
    ("doubled column", train(pd.concat([TABLE, TABLE[["gas"]]], axis=1)), SpaceError, ["'gas'", "more than once"]),
    ("doubled target", train(pd.concat([TABLE, TABLE[["strength"]]], axis=1)), SpaceError, ["'strength'", "drop"]),
    ("constant target", train(TABLE.assign(strength=3.5)), TableError, ["'strength'", "constant", "3.5"]),
    ("zero target", train(TABLE.assign(strength=0)), TableError, ["'strength'", "constant"]),
    ("constant column", train(TABLE.assign(power=300.0)), TableError, ["'power'", "constant", "leave it out"]),
    ("constant level", train(TABLE.assign(gas="Air")), TableError, ["'gas'", "constant", "leave it out"]),
    ("two rows", train(TABLE[:2]), TableError, ["3 rows", "got 2"]),
    ("no rows", train(TABLE[:0]), TableError, ["3 rows", "got 0"]),
    ("target unknown", train(target="stress"), TableError, ["'stress'", "'strength'"]),
    ("target not named", train(target=None), TableError, ["name the target", "'strength'"]),
    ("target a number", train(TABLE.rename(columns={"strength": 5}), 5), TableError, ["5", "rename"]),
    ("target a list", train(target=["strength"]), TableError, ["'strength'", "text"]),
    ("target an array", train(target=np.array(["strength", "gas"])), TableError, ["text"]),
    ("target in space", train(target="power"), TableError, ["'power'", "parameter of the space"]),
    ("table a list", train([[1, 2]]), TableError, ["DataFrame", "list"]),
    ("table an array", train(RAW), TableError, ["DataFrame", "ndarray"]),
    ("table None", train(None), TableError, ["DataFrame", "NoneType"]),
    ("X narrow", train((RAW[:, :3], Y), None), TableError, ["(N, 4)", "'gas'", "(24, 3)"]),
    ("X flat", train((RAW[:, 0], Y), None), TableError, ["(N, 4)", "(24,)"]),
    ("X ragged", train(([[1, 2], [3]], [1, 2]), None), SpaceError, ["X", "one length"]),
    ("y short", train((RAW, Y[:-1]), None), TableError, ["24 rows", "(23,)"]),
    ("y column", train((RAW, Y[:, None]), None), TableError, ["y", "(24, 1)"]),
    ("y text", train((RAW, Y.astype(str)), None), TableError, ["'target'", "numbers", "[0, 1"]),
    ("y ragged", train((RAW, [[1], [1, 2]]), None), SpaceError, ["y", "one length"]),
    ("X level index", train((raw_with("gas", 3, 7), Y), None), SpaceError, ["'gas'", "0 to 2", "7.0", "row 3"]),
    ("X missing", train((raw_with("gas", 3, np.nan), Y), None), TableError, ["'gas'", "row 3,", "missing='drop'"]),
    ("X infinite", train((raw_with("layers", 3, np.inf), Y), None), SpaceError, ["'layers'", "inf", "row 3"]),
    ("(X, y) target in space", train((RAW, Y), "gas"), TableError, ["'gas'", "another name"]),
    ("(X, y) target a number", train((RAW, Y), 5), TableError, ["5", "text"]),
    ("(X, y) three of them", train((RAW, Y, Y), None), TableError, ["(X, y)"]),
    (
        "log of target",
        train(with_cell("strength", 4, -1.0), log_target=True),
        TableError,
        ["'strength'", "row 4,", "above 0"],
    ),
    ("log of zero target", train(with_cell("strength", 4, 0.0), log_target=True), TableError, ["row 4,", "log_target"]),
    ("groups short", train(groups=[1, 2, 3]), TableError, ["groups", "24 rows", "(3,)"]),
    ("groups a number", train(groups=5), TableError, ["groups", "24 rows"]),
    ("groups too few", train(groups=[0, 1] * 12), TableError, ["groups", "at least 3", "got 2"]),
    ("groups NaN", train(groups=[np.nan] + [1.0, 2.0, 3.0] * 7 + [1.0, 2.0]), TableError, ["groups", "row 0,"]),
    ("groups None", train(groups=["a", "b", "c"] * 7 + ["a", "b", None]), TableError, ["groups", "row 23,"]),
    ("groups text and NaN", train(groups=["a", "b", "c"] * 7 + ["a", "b", np.nan]), TableError, ["groups", "row 23,"]),
    ("groups unknown column", train(groups="batch"), TableError, ["groups", "'batch'", "'gas'"]),
    ("groups ragged", train(groups=[[1], [1, 2]] * 12), SpaceError, ["groups", "one length"]),
    ("weights short", train(sample_weight=[1.0]), TableError, ["sample_weight", "24 rows", "(1,)"]),
    ("weight negative", train(sample_weight=[-1.0] + [1.0] * 23), TableError, ["sample_weight", "row 0,", "drop rows"]),
    ("weight zero", train(sample_weight=[1.0, 0.0] + [1.0] * 22), TableError, ["sample_weight", "row 1,", "above 0"]),
    ("weight next to nothing", train(sample_weight=[1e-300] + [1.0] * 23), TableError, ["sample_weight", "row 0,"]),
    ("weight NaN", train(sample_weight=[1.0] * 23 + [np.nan]), TableError, ["sample_weight", "nan", "row 23,"]),
    ("weight infinite", train(sample_weight=[np.inf] + [1.0] * 23), TableError, ["sample_weight", "inf", "row 0,"]),
    ("weight text", train(sample_weight=["1"] * 24), TableError, ["sample_weight", "'1'", "numbers"]),
    ("weight unknown column", train(sample_weight="w"), TableError, ["sample_weight", "'w'", "'gas'"]),
    ("missing setting", train(missing="ignore"), TableError, ["missing", "'ignore'", "'drop'"]),
]

SETTINGS = [
    ("space None", train(space=None), MkboError, ["ParameterSpace", "NoneType", "from_dict", "from_table"]),
    ("space a mapping", train(space=MIXED_SPACE), MkboError, ["ParameterSpace", "dict", "from_dict"]),
    ("kernel unknown", train(kernel="rbf"), FitError, ["'rbf'", "'se'", "'linear'"]),
    ("kernel a class", train(kernel=SquaredExponential), FitError, ["SquaredExponential", "free kernel"]),
    ("kernel a list", train(kernel=["se"]), FitError, ["['se']", "'linear'"]),
    ("kernel normalised", train(kernel=normalise(Linear())), FitError, ["Normalised", "free kernel"]),
    ("trainer unknown", train(trainer="forest"), FitError, ["'forest'", "'svm'", "'gp'"]),
    ("task unknown", train(task="ranking"), FitError, ["'ranking'", "'regression'"]),
    ("frame unknown", train(frame="polar"), SpaceError, ["'polar'", "'centred'", "'unit'"]),
    ("frame an array", train(frame=np.array(["unit", "centred"])), SpaceError, ["frame", "'centred'"]),
    ("ard text", train(ard="no"), FitError, ["ard", "'no'", "True or False"]),
    ("log_target text", train(log_target="no"), FitError, ["log_target", "'no'", "True or False"]),
    ("n_jobs zero", train(n_jobs=0), FitError, ["n_jobs", "0", "-1"]),
    ("n_jobs text", train(n_jobs="all"), FitError, ["n_jobs", "'all'", "-1"]),
    ("gp with C", train(trainer="gp", C=1.0), FitError, ["'C'", "trainer='svm'"]),
    ("gp with all", train(trainer="gp", C=1.0, sigma=1.0, epsilon=0.1), FitError, ["'C', 'sigma', 'epsilon'"]),
    ("C negative", train(C=-1.0), FitError, ["C must be above 0", "-1.0"]),
    ("C zero", train(C=[1.0, 0.0]), FitError, ["C must be above 0", "0.0"]),
    ("C NaN", train(C=float("nan")), FitError, ["C must be a finite number", "nan"]),
    ("C infinite", train(C=float("inf")), FitError, ["C must be a finite number", "inf"]),
    ("C empty", train(C=[]), FitError, ["C", "[]"]),
    ("C text", train(C="auto"), FitError, ["C", "'auto'"]),
    ("C boolean", train(C=True), FitError, ["C", "True"]),
    ("C ragged", train(C=[1, [2]]), SpaceError, ["C", "one length"]),
    ("C beyond double", train(C=HUGE), FitError, ["C must be a finite number"]),
    ("C next to nothing", train(C=1e-300), FitError, ["constant", "try other C"]),
    ("sigma negative", train(sigma=-1.0), FitError, ["sigma must be above 0", "-1.0"]),
    ("sigma zero", train(sigma=0), FitError, ["sigma must be above 0", "0"]),
    ("sigma NaN", train(sigma=[1.0, float("nan")]), FitError, ["sigma must be a finite number", "nan"]),
    ("sigma empty", train(sigma=()), FitError, ["sigma", "()"]),
    ("sigma subnormal", train(sigma=1e-320), FitError, ["sigma", "larger sigma"]),
    ("sigma too small", train(sigma=1e-12), FitError, ["re-weighted kernel", "larger sigma"]),
    ("sigma too large", train(sigma=1e300), FitError, ["constant", "sigma"]),
    (
        "sigma of exp",
        train(kernel="exponential", sigma=1e-5, ard=False),
        FitError,
        ["overflows", "1e-05", "larger sigma"],
    ),
    ("sigma of linear", train(kernel="linear", sigma=1e-320), FitError, ["overflows", "larger sigma"]),
    ("epsilon negative", train(epsilon=-0.1), FitError, ["epsilon must be at least 0", "-0.1"]),
    ("epsilon NaN", train(epsilon=float("nan")), FitError, ["epsilon must be a finite number", "nan"]),
    ("epsilon empty", train(epsilon=[]), FitError, ["epsilon", "[]"]),
    (
        "epsilon too large",
        train(epsilon=100.0),
        FitError,
        ["no support vectors", "'strength'", "100", "smaller epsilon"],
    ),
    (
        "rows far outside, exponential",
        train(TABLE.assign(power=np.linspace(100, 5e7, N)), kernel="exponential", ard=True),
        FitError,
        ["overflows", "far outside"],
    ),
    (
        "rows far outside, gp",
        train(TABLE.assign(power=np.linspace(100, 5e200, N)), trainer="gp"),
        FitError,
        ["overflows", "far outside"],
    ),
    # Kernels
    ("sigma of kernel zero", lambda: SquaredExponential(sigma=0), KernelError, ["sigma", "above 0", "0"]),
    ("sigma of kernel NaN", lambda: Exponential(sigma=float("nan")), KernelError, ["sigma", "nan"]),
    ("sigma of kernel text", lambda: SquaredExponential(sigma="1"), KernelError, ["sigma", "'1'"]),
    ("weight of kernel negative", lambda: Linear(weights=(1.0, -2.0)), KernelError, ["weights[1]", "-2.0"]),
    ("weight of kernel zero", lambda: SquaredExponential(weights=(0.0, 1.0)), KernelError, ["weights[0]", "0.0"]),
    ("degree zero", lambda: Polynomial(degree=0), KernelError, ["degree", "at least 1", "0"]),
    ("degree fractional", lambda: Polynomial(degree=2.5), KernelError, ["degree", "2.5"]),
    ("no coefficients", TaylorSeries, KernelError, ["coefficients", "above 0"]),
    ("coefficients zero", lambda: TaylorSeries(coefficients=(0, 0)), KernelError, ["coefficients", "above 0"]),
    ("coefficient negative", lambda: TaylorSeries(coefficients=(1, -1)), KernelError, ["coefficients[1]", "-1"]),
    ("points of other dimension", lambda: Linear(weights=(1, 2)).gram(np.ones((3, 3))), KernelError, ["2", "(3, 3)"]),
    ("single point to gram", lambda: Linear().gram(np.ones(3)), KernelError, ["(n, d)", "(3,)"]),
    ("no points", Linear(), KernelError, ["at least one point"]),
    ("reweight lengths", lambda: reweight(Linear(), np.ones((3, 2)), [1.0]), KernelError, ["(3, 2)", "(1,)"]),
    ("reweight flat", lambda: reweight(Linear(), [1.0, 2.0], [1.0, 2.0]), KernelError, ["(N, d)", "(2,)"]),
    ("reweight zeros", lambda: reweight(Linear(), np.ones((2, 2)), [0, 0]), KernelError, ["alpha", "zero"]),
    ("reweight NaN", lambda: reweight(Linear(), [[np.nan]], [1.0]), KernelError, ["finite"]),
    ("reweight infinite", lambda: reweight(Linear(), [[1.0]], [np.inf]), KernelError, ["finite"]),
    ("reweight dimension", lambda: reweight(Linear(weights=(1, 2)), [[1.0]], [1.0]), KernelError, ["[1, 2]"]),
    ("reweight a name", lambda: reweight("se", [[1.0]], [1.0]), KernelError, ["free", "str"]),
    ("normalise a name", lambda: normalise("se"), KernelError, ["free", "str"]),
]

USES = [
    ("form unknown", lambda cov: cov.gram(TABLE, form="transfer"), KernelError, ["'transfer'", "'two_layer'"]),
    ("form None", lambda cov: cov.gram(TABLE, form=None), KernelError, ["None", "'base'"]),
    ("s zero", lambda cov: cov.gram(TABLE, form="two_layer", s=0), KernelError, ["s must be", "0"]),
    ("s negative", lambda cov: cov.gram(TABLE, form="two_layer", s=-1.0), KernelError, ["s must be", "-1.0"]),
    ("s NaN", lambda cov: cov.gram(TABLE, form="two_layer", s=float("nan")), KernelError, ["s must be", "nan"]),
    ("s text", lambda cov: cov.gram(TABLE, form="two_layer", s="1"), KernelError, ["s must be", "'1'"]),
    ("s boolean", lambda cov: cov.gram(TABLE, form="two_layer", s=True), KernelError, ["s must be", "True"]),
    ("s beyond double", lambda cov: cov.gram(TABLE, form="two_layer", s=HUGE), KernelError, ["s must be"]),
    ("X2 of other columns", lambda cov: cov.gram(TABLE, RAW[:, :2]), SpaceError, ["(n, 4)", "(24, 2)"]),
    ("gram overflows", lambda cov: cov.gram([POINT, POINT | {"power": 1e200}]), KernelError, ["far outside", "units"]),
    ("predict NaN", lambda cov: cov.predict([POINT | {"power": np.nan}]), SpaceError, ["'power'", "missing"]),
    (
        "predict overflows",
        lambda _: polynomial().predict([POINT | {"power": 1e200}]),
        KernelError,
        ["point 0", "far outside"],
    ),
    ("predict lacks a column", lambda cov: cov.predict(TABLE.drop(columns="gas")), SpaceError, ["'gas'"]),
    ("direction unknown", lambda cov: cov.starting_points(3, "up"), KernelError, ["'up'", "'opposite'"]),
    ("n zero", lambda cov: cov.starting_points(0), KernelError, ["n must be", "0"]),
    ("n fractional", lambda cov: cov.starting_points(2.0), KernelError, ["n must be", "2.0"]),
    ("n boolean", lambda cov: cov.starting_points(True), KernelError, ["n must be", "True"]),
    ("seed of starting points", lambda cov: cov.starting_points(3, "same", seed=-1), SpaceError, ["seed", "-1"]),
    ("load of missing file", lambda cov: PretrainedCovariance.load("no/such.json"), ArtefactError, ["no/such.json"]),
    ("save into missing folder", lambda cov: cov.save("no/such.json"), ArtefactError, ["no/such.json", "folder"]),
]


def check(call, error, words):
    with warnings.catch_warnings():
        # Arithmetic that overflows on the way to an error is no fault; what comes of it is.
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", MkboWarning)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the type is what is tested
            call()
    assert type(caught.value) is error
    assert isinstance(caught.value, MkboError)
    assert isinstance(caught.value, ValueError)
    message = str(caught.value)
    for word in words:
        assert word in message
    assert len(message) < 600, "too long to be read"


def named(cases):
    names = [name for name, *_ in cases]
    assert len(set(names)) == len(names)
    return [pytest.param(*case, id=name) for name, *case in cases]


@pytest.mark.parametrize(("call", "error", "words"), named(DESCRIPTIONS + TABLES + SETTINGS))
def test_bad_input_is_refused(call, error, words):
    check(call, error, words)


@pytest.mark.parametrize(("call", "error", "words"), named(USES))
def test_bad_use_is_refused(call, error, words, cov):
    check(lambda: call(cov), error, words)


@pytest.mark.parametrize("name", ["frame", "task", "trainer", "combine", "missing", "ard", "log_target", "progress"])
def test_an_array_in_place_of_a_word_or_flag_is_refused(name):
    with pytest.raises(MkboError, match=f"^{name}.* must be .*, got"):
        pretrain(TABLE, "strength", SPACE, **{name: np.zeros(2)})


def test_a_finite_space_has_only_so_many_starting_points():
    space = ParameterSpace.from_dict({"layers": (1, 6, "int")})
    table = pd.DataFrame({"layers": [1, 2, 3, 4, 5, 6], "y": [1.0, 3.0, 2.0, 5.0, 4.0, 0.0]})
    cov = pretrain(table, "y", space, C=5.0, sigma=0.5, epsilon=0.05, ard=False, progress=False)
    for direction in ("same", "opposite", "unknown"):
        assert sorted(p["layers"] for p in cov.starting_points(6, direction)) == [1, 2, 3, 4, 5, 6]
        check(lambda direction=direction: cov.starting_points(7, direction), KernelError, ["7", "6", "fewer"])


@pytest.mark.parametrize("column", ["power", "gas", "strength"])
def test_rows_are_called_by_their_place_in_the_table_given(column):
    """Rows left out before do not shift the numbers in later messages, nor does the table's index."""
    faulty = with_cell("power", 0, np.nan, with_cell(column, 9, "?")).set_axis(np.arange(100, 100 + N))
    with pytest.warns(TableWarning, match="row 0,"), pytest.raises(MkboError, match=rf"'{column}'.*row.* \[?9"):
        train(faulty, missing="drop")()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"log_target": True}, "log_target"),
        ({"groups": [*range(9), None, *range(N - 10)]}, "groups"),
        ({"sample_weight": [1.0] * 9 + [-1.0] + [1.0] * (N - 10)}, "sample_weight"),
    ],
)
def test_rows_of_targets_groups_and_weights_are_called_by_their_place(settings, words):
    faulty = with_cell("strength", 0, np.nan, with_cell("strength", 9, -1.0))
    with pytest.warns(TableWarning), pytest.raises(TableError, match=rf"{words}.*row 9,"):
        train(faulty, missing="drop", **settings)()


# Warnings


def caught_warning(call, kind, *words):
    with pytest.warns(kind) as caught:
        result = call()
    assert len(caught) == 1
    assert issubclass(kind, MkboWarning)
    assert caught[0].filename == __file__, "the warning points at the caller"
    for word in words:
        assert word in str(caught[0].message)
    return result


def test_values_far_outside_bounds_warn():
    table = with_cell("power", 8, 7000.0, with_cell("power", 3, -900.0)).astype({"power": float})
    caught_warning(
        lambda: pretrain(table, "strength", SPACE, C=5.0, sigma=2.0, epsilon=0.05, ard=False, progress=False),
        TableWarning,
        "'power'",
        "[3, 8]",
        "(100, 5500)",
        "-900",
        "7000",
        "check units",
    )


def test_values_at_and_a_little_outside_bounds_do_not_warn():
    table = with_cell("power", 8, 5500.0 + 40, with_cell("power", 3, 100.0)).astype({"power": float})
    train(table)()


def test_dropped_rows_warn_with_their_numbers():
    table = with_cell("gas", 3, None, with_cell("power", 8, np.nan, with_cell("strength", 11, np.nan)))
    cov = caught_warning(
        lambda: pretrain(
            table, "strength", SPACE, C=5.0, sigma=2.0, epsilon=0.05, ard=False, missing="drop", progress=False
        ),
        TableWarning,
        "'power'",
        "'gas'",
        "'strength'",
        "[3, 8, 11]",
        "3 rows are left out",
    )
    assert cov.record.rows == N - 3


def test_gaps_in_columns_that_are_not_used_do_not_matter():
    extra = TABLE.assign(remark=[None] * N, other=np.nan)
    assert train(extra)().record.rows == N


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"C": [0.001, 5.0]}, "C"),
        ({"sigma": [2.0, 500.0]}, "sigma"),
        ({"epsilon": [0.05, 0.5]}, "epsilon"),
    ],
)
def test_best_value_at_a_grid_edge_warns(settings, name):
    caught_warning(
        lambda: pretrain(
            TABLE,
            "strength",
            SPACE,
            ard=False,
            progress=False,
            **({"C": 5.0, "sigma": 2.0, "epsilon": 0.05} | settings),
        ),
        GridEdgeWarning,
        f"best {name}",
        "edge",
    )


def test_best_value_inside_the_grid_does_not_warn():
    cov = train(sigma=[0.01, 2.0, 2000.0], ard=False)()
    assert cov.sigma == 2.0
    assert cov.record.notes == ()


@pytest.mark.parametrize("value", [2, 0, -5, 10.0, True, "all"])
def test_max_rows(value):
    check(train(max_rows=value), FitError, ["max_rows", repr(value)])
