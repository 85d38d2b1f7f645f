"""Substances of BaYBE with BaYBE's encoding, or the table's own, as their descriptors."""

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("baybe", reason="BaYBE is missing; the extra baybe of this package installs it")

from baybe.objectives import SingleTargetObjective
from baybe.parameters import CategoricalParameter, CustomDiscreteParameter, NumericalContinuousParameter
from baybe.searchspace import SearchSpace
from baybe.targets import NumericalTarget

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.baybe import parameter_space, pretrained_surrogate
from mkbo_plugins.errors import SpaceError
from mkbo_plugins.space.described import Described
from tests.test_described import FURTHER, PHOSPHINES, SPACE, table

NUMBERS = pd.DataFrame.from_dict(PHOSPHINES | FURTHER, orient="index")
HEAT = NumericalContinuousParameter("heat", (30.0, 70.0))


def custom(levels=tuple(NUMBERS.index)):
    return CustomDiscreteParameter("ligand", NUMBERS.loc[list(levels)], decorrelate=False)


def test_an_encoding_becomes_descriptors():
    space = parameter_space(SearchSpace.from_product([custom(), HEAT]), described=["ligand"])
    assert isinstance(space["ligand"], Described)
    found = np.array([list(row.values()) for row in space["ligand"].rows.values()])
    expected = NUMBERS.loc[list(space["ligand"].levels)].to_numpy()
    np.testing.assert_allclose(np.sort(found, axis=1), np.sort(expected, axis=1))
    plain = parameter_space(SearchSpace.from_product([custom(), HEAT]))
    assert not isinstance(plain["ligand"], Described)
    for names, message in (["heat"], "'heat' has numbers and no levels"), (["base"], r"\['base'\] are no parameters"):
        with pytest.raises(SpaceError, match=message):
            parameter_space(SearchSpace.from_product([custom(), HEAT]), described=names)


@pytest.mark.parametrize("shown", [custom(), CategoricalParameter("ligand", NUMBERS.index)], ids=["custom", "one-hot"])
def test_the_covariance_in_use_is_that_of_the_table(shown):
    cov = pretrain(table(), "rate", SPACE, trainer="gp", progress=False).with_levels({"ligand": FURTHER})
    searchspace = SearchSpace.from_product([shown, HEAT])
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"ligand": rng.choice(NUMBERS.index, 7), "heat": rng.uniform(30, 70, 7)})
    data = data.assign(quality=rng.normal(size=7))
    surrogate = pretrained_surrogate(cov, "normalised")
    surrogate.fit(searchspace, SingleTargetObjective(NumericalTarget("quality")), data)
    model = surrogate.to_botorch().eval()
    inputs = model.transform_inputs(torch.as_tensor(searchspace.transform(data, allow_extra=True).to_numpy(float)))
    with torch.no_grad():
        used = (model.covar_module(inputs).to_dense() / model.covar_module.stock(inputs).to_dense()).numpy()
    expected = cov.gram(data[["heat", "ligand"]], form="normalised")
    np.testing.assert_allclose(used / used[0, 0], expected / expected[0, 0], atol=1e-8)


def test_a_level_without_descriptors_is_named():
    cov = pretrain(table(), "rate", SPACE, trainer="gp", progress=False)
    data = pd.DataFrame({"ligand": ["PBu3", "PCy3"], "heat": [40.0, 50.0], "quality": [1.0, 2.0]})
    with pytest.raises(SpaceError, match=r"'PBu3'.*descriptors \['pKa', 'cone'\]"):
        pretrained_surrogate(cov).fit(
            SearchSpace.from_product([custom(), HEAT]), SingleTargetObjective(NumericalTarget("quality")), data
        )


def test_an_earlier_campaign_is_a_table():
    space = parameter_space(SearchSpace.from_product([custom(tuple(PHOSPHINES)), HEAT]), described=["ligand"])
    data = table().assign(heat=lambda one: 30 + one["heat"] / 2)
    cov = pretrain(data, "rate", space, trainer="gp", progress=False)
    assert cov.record.explained > 0.8
    assert ParameterSpace.from_dict(space.to_dict()) == space
