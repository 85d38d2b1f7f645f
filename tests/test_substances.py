"""Descriptors of substances by RDKit, and the command that writes them to a file that a space names."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("rdkit", reason="RDKit is missing; the extra chemistry of this package installs it")

from mkbo_plugins.errors import TableError, TableWarning
from mkbo_plugins.tables.spacefiles import read_space_file
from mkbo_plugins.tables.substances import DESCRIPTORS, describe_substances

SMILES = {
    "water": "O",
    "ethanol": "CCO",
    "1-propanol": "CCCO",
    "toluene": "Cc1ccccc1",
    "p-xylene": "Cc1ccc(C)cc1",
}


def test_descriptors_are_what_is_known_of_substances():
    frame = describe_substances(SMILES)
    assert list(frame.index) == list(SMILES)
    assert set(frame) == set(DESCRIPTORS)
    np.testing.assert_allclose(frame["MolWt"], [18.015, 46.069, 60.096, 92.141, 106.168], atol=2e-3)  # g/mol
    assert frame["NumAromaticRings"].tolist() == [0, 0, 0, 1, 1]
    assert frame["TPSA"][["toluene", "p-xylene"]].tolist() == [0, 0]
    assert frame["FractionCSP3"]["p-xylene"] == pytest.approx(2 / 8)
    assert frame["MolLogP"].idxmin() == "water"


def test_components_of_fingerprints_keep_distances():
    """All of them together are the fingerprints up to a rotation; the first ones are uncorrelated and largest."""
    from rdkit.Chem import MolFromSmiles
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    generator = GetMorganGenerator(radius=2, fpSize=2048)
    counts = np.array([generator.GetCountFingerprintAsNumPy(MolFromSmiles(s)) for s in SMILES.values()], dtype=float)
    found = describe_substances(SMILES, fingerprints=4)[[f"Morgan{k}" for k in range(1, 5)]].to_numpy()
    apart = ((counts[:, None] - counts) ** 2).sum(axis=-1)
    np.testing.assert_allclose(((found[:, None] - found) ** 2).sum(axis=-1), apart, atol=1e-4)
    covariance = found.T @ found
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-4)
    assert (np.diff(np.diag(covariance)) <= 1e-9).all()
    two = describe_substances(SMILES, fingerprints=2)[["Morgan1", "Morgan2"]].to_numpy()
    np.testing.assert_array_equal(two, found[:, :2])


@pytest.mark.parametrize(
    ("smiles", "settings", "message"),
    [
        ({"water": "O", "odd": "C1CC"}, {}, "substance 'odd': 'C1CC' is no SMILES"),
        ({"water": "O", "odd": ""}, {}, "substance 'odd': '' is no SMILES"),
        ({"water": "O", "odd": np.nan}, {}, "substance 'odd': nan is no SMILES"),
        ({"water": "O"}, {}, "at least two"),
        (SMILES, {"fingerprints": 5}, "at most 4"),
        (SMILES, {"fingerprints": True}, "whole number"),
    ],
)
def test_what_is_no_substance_is_named(smiles, settings, message, capfd):
    with pytest.raises(TableError, match=message):
        describe_substances(smiles, **settings)
    assert not capfd.readouterr().err  # RDKit's own messages


def test_descriptors_that_tell_nothing_are_left_out_aloud():
    with pytest.warns(TableWarning, match=r"\['TPSA', 'FractionCSP3', 'NumRotatableBonds'.*are the same for all"):
        frame = describe_substances({"benzene": "c1ccccc1", "naphthalene": "c1ccc2ccccc2c1"})
    assert list(frame) == ["MolWt", "MolLogP", "NumAromaticRings"]


def test_the_command_writes_what_a_space_reads(tmp_path):
    from typer.testing import CliRunner

    from mkbo_plugins.cli import app

    table = pd.DataFrame({"solvent": SMILES, "structure": SMILES}).assign(solvent=list(SMILES), supplier="any")
    table.to_csv(tmp_path / "structures.csv", index=False)

    def run(*arguments):
        return CliRunner().invoke(app, ["describe", str(tmp_path / "structures.csv"), *map(str, arguments)])

    out = tmp_path / "solvents.csv"
    done = run("--out", out, "--smiles", "structure", "--fingerprints", 2)
    assert done.exit_code == 0, done.output
    assert "5 substances described by MolWt" in done.output
    (tmp_path / "space.toml").write_text('[solvent]\nlevels = {file = "solvents.csv"}\n[heat]\nbounds = [20, 80]\n')
    space = read_space_file(tmp_path / "space.toml")
    assert pd.DataFrame.from_dict(space["solvent"].rows, orient="index").equals(
        describe_substances(SMILES, fingerprints=2)
    )
    for arguments, message in (
        (("--out", out), "has no column 'smiles'"),
        (("--out", out, "--smiles", "solvent"), "has no column 'solvent'"),
        (("--out", out, "--smiles", "supplier"), "'any' is no SMILES"),
        (("--out", tmp_path / "structures.csv", "--smiles", "structure"), "the command reads it"),
    ):
        refused = run(*arguments)
        assert refused.exit_code == 2
        assert message in refused.output
    table.assign(structure=["O", "", "CCCO", "CCO", "C"]).to_csv(tmp_path / "structures.csv", index=False)
    assert "column 'structure' is empty in line 3" in run("--out", out, "--smiles", "structure").output
