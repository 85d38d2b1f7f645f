"""Numbers that describe substances, from their structures by RDKit."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from mkbo_plugins.errors import TableError, TableWarning

if TYPE_CHECKING:
    import pandas as pd

DESCRIPTORS = ("MolWt", "MolLogP", "TPSA", "FractionCSP3", "NumRotatableBonds", "NumAromaticRings")
"""RDKit's names of molar mass, octanol-water partition, polar surface, sp3 carbon, and counts."""

DIGITS = 6
"""Digits behind the point, the same on every machine."""

RADIUS, BITS = 2, 2048
"""Radius and length of Morgan fingerprints."""


def describe_substances(smiles: Mapping[Any, str], *, fingerprints: int = 0) -> "pd.DataFrame":
    """Return numbers that describe substances, a row for each.

    Parameters
    ----------
    smiles
        The SMILES of each substance, by name.
    fingerprints
        Number of principal components of the substances' Morgan fingerprints, with counts, to add.

    Returns
    -------
    DataFrame
        RDKit's `DESCRIPTORS`, but for those that are the same for all, and columns ``Morgan1`` and so on; its index are
        the names.

    Raises
    ------
    TableError
        If there are fewer than two substances, a text is no SMILES, or there are not so many principal components.
    ImportError
        If RDKit is not installed.

    Warns
    -----
    TableWarning
        If descriptors are left out.
    """
    _need_rdkit()
    import pandas as pd
    from rdkit.Chem import Descriptors

    if len(smiles) < 2:
        raise TableError(f"descriptors compare substances, and need at least two, got {list(smiles)}")
    molecules = [_molecule(name, text) for name, text in smiles.items()]
    frame = pd.DataFrame(
        {name: [round(float(getattr(Descriptors, name)(one)), DIGITS) for one in molecules] for name in DESCRIPTORS},
        index=list(smiles),
    )
    constant = [name for name in frame if frame[name].nunique() == 1]
    if constant:
        warnings.warn(
            f"descriptors {constant} are the same for all substances and are left out", TableWarning, stacklevel=2
        )
    components = pd.DataFrame(
        _components(molecules, fingerprints),
        index=frame.index,
        columns=[f"Morgan{k + 1}" for k in range(fingerprints)],
    )
    return frame.drop(columns=constant).join(components)


def _molecule(name: Any, smiles: Any) -> Any:
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles) if isinstance(smiles, str) and smiles.strip() else None
    if molecule is None:
        raise TableError(f"substance {name!r}: {smiles!r:.90} is no SMILES that RDKit can read")
    return molecule


def _components(molecules: list[Any], count: int) -> Float[np.ndarray, "n k"]:
    """Return the first principal components of Morgan fingerprints, (n, k)."""
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not 0 <= count < len(molecules):
        raise TableError(
            f"fingerprints (--fingerprints) must be a whole number of at most {len(molecules) - 1}, one less than the "
            f"substances, got {count!r:.60}"
        )
    if not count:
        return np.empty((len(molecules), 0))
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
    from sklearn.decomposition import PCA

    generator = GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    counts = np.array([generator.GetCountFingerprintAsNumPy(molecule) for molecule in molecules], dtype=float)
    return np.round(PCA(int(count), svd_solver="full").fit_transform(counts), DIGITS)


def _need_rdkit() -> None:
    try:
        import rdkit  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "descriptors of substances need RDKit; install it with: pip install 'mkbo_plugins[chemistry]'"
        ) from error
