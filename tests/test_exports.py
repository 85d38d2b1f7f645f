"""Tables of trials as optimisers export them are inputs as they are, in Python and on the command line."""

import logging
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.cli import app
from mkbo_plugins.errors import SpaceError, TableError, TableWarning
from mkbo_plugins.tables.exports import completed, export_of, record_columns
from mkbo_plugins.tables.inputfiles import read_trials_file

SPACE = ParameterSpace.from_dict({"lr": (1e-4, 1e-1, "log"), "act": ["relu", "tanh"]})
QUICK = {"trainer": "gp", "progress": False}


def loss(lr, act, shift=0.0):
    return (np.log10(lr) + 2 + shift) ** 2 + (act == "tanh")


@pytest.fixture(scope="module")
def studies():
    """Return two studies of Optuna with trials of every state."""
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    found = []
    for seed in (0, 1):
        study = optuna.create_study(study_name=f"study {seed}", sampler=optuna.samplers.RandomSampler(seed))

        def objective(trial, seed=seed):
            lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
            act = trial.suggest_categorical("act", ["relu", "tanh"])
            if trial.number == 3:
                raise optuna.TrialPruned
            if trial.number == 4:
                raise RuntimeError
            trial.set_user_attr("host", "a")
            return loss(lr, act, 0.2 * seed)

        study.optimize(objective, n_trials=14, catch=(RuntimeError,))
        study.ask()
        found.append(study)
    return found


def frames(studies):
    """Return what the studies export, one below the other, with the name of each."""
    return pd.concat([s.trials_dataframe().assign(study=s.study_name) for s in studies], ignore_index=True)


LEFT_OUT = "Optuna's table of trials: 6 trials are left out, not being COMPLETE: 2 PRUNED, 2 FAIL, 2 RUNNING"


def test_frames_of_optuna_give_what_their_studies_give(studies):
    with pytest.warns(TableWarning, match=LEFT_OUT):
        from_frame = pretrain(frames(studies), "value", SPACE, by="study", dates="datetime_complete", **QUICK)
    with pytest.warns(TableWarning, match=r"'study [01]': 3 trials are left out.*1 PRUNED, 1 FAIL, 1 RUNNING"):
        pooled = pretrain(studies, space=SPACE, combine="pool", **QUICK)
    assert from_frame.fixed == pooled.fixed
    assert [c.name for c in pooled.campaigns] == [c.name for c in from_frame.campaigns] == ["study 0", "study 1"]
    with pytest.warns(TableWarning):
        twice = pretrain([studies[0], studies[0]], space=SPACE, combine="pool", **QUICK)
    assert [c.name for c in twice.campaigns] == ["table 1", "table 2"]
    assert [c.rows for c in from_frame.campaigns] == [12, 12]
    today = studies[0].trials[0].datetime_complete.date().isoformat()
    assert all(c.date.startswith(today) for c in from_frame.campaigns)


@pytest.mark.filterwarnings("ignore:Optuna's table")
def test_names_with_the_prefix_of_optuna_stay_where_the_space_has_them(studies):
    frame = studies[0].trials_dataframe()
    prefixed = ParameterSpace.from_dict({f"params_{name}": spec for name, spec in SPACE.to_dict().items()})
    ours = pretrain(frame, "value", prefixed, **QUICK)
    assert ours.space.names == ("params_lr", "params_act")
    assert ours.fixed == pretrain(frame, "value", SPACE, **QUICK).fixed


def test_rows_are_called_as_in_the_table_given(studies):
    frame = studies[0].trials_dataframe()
    frame.loc[9, "value"] = np.nan
    with pytest.warns(TableWarning, match="3 trials"), pytest.raises(TableError, match="row 9 of the table, counting"):
        pretrain(frame, "value", SPACE, **QUICK)
    with pytest.warns(TableWarning, match="4 RUNNING"), pytest.raises(TableError, match="no trial that is COMPLETE"):
        pretrain(frame.head(4).assign(state="RUNNING"), "value", SPACE, **QUICK)


def test_other_tables_are_left_as_they_are():
    table = pd.DataFrame({"state": ["solid", "liquid"], "params_x": [1.0, 2.0], "arm_name": ["0", "1"]})
    assert export_of(table) is None
    assert completed(table) is table
    assert record_columns(table) == ()
    assert completed(([1.0], [2.0])) == ([1.0], [2.0])


@pytest.fixture(scope="module")
def summary():
    """Return what Ax tells of an experiment with trials that ended in several ways."""
    api = pytest.importorskip("ax.api.client")
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    logging.disable(logging.CRITICAL)
    client = api.Client(random_seed=0)
    lr = RangeParameterConfig(name="lr", bounds=(1e-4, 1e-1), parameter_type="float", scaling="log")
    act = ChoiceParameterConfig(name="act", values=["relu", "tanh"], parameter_type="str", is_ordered=False)
    client.configure_experiment(parameters=[lr, act], name="earlier")
    client.configure_optimization("-loss")
    client.configure_generation_strategy(method="random_search")
    for i, point in client.get_next_trials(12).items():
        if i == 1:
            client.mark_trial_failed(i)
        elif i == 2:
            client.mark_trial_abandoned(i)
        elif i < 11:
            client.complete_trial(i, raw_data={"loss": loss(**point)})
    logging.disable(logging.NOTSET)
    return client.summarize()


def test_summaries_of_ax_are_tables(summary):
    counts = "9 trials|3 trials are left out, not being COMPLETED: 1 FAILED, 1 ABANDONED, 1 RUNNING"
    with pytest.warns(TableWarning, match=counts):
        cov = pretrain(summary, "loss", SPACE, **QUICK)
    done = summary[summary["trial_status"] == "COMPLETED"]
    assert cov == pretrain(done[["lr", "act", "loss"]], "loss", SPACE, **QUICK)
    assert cov.record.rows == 9


def test_dumps_of_scikit_optimize_are_a_list_of_campaigns(tmp_path):
    skopt = pytest.importorskip("skopt")
    dimensions = [
        skopt.space.Real(1e-4, 1e-1, prior="log-uniform", name="lr"),
        skopt.space.Categorical(["relu", "tanh"], name="act"),
    ]
    files = [tmp_path / f"{seed}.pkl" for seed in range(2)]
    for seed, file in enumerate(files):
        counts = {"n_calls": 10, "n_initial_points": 10, "random_state": seed}
        result = skopt.gp_minimize(lambda x, seed=seed: float(loss(*x, 0.2 * seed)), dimensions, **counts)
        skopt.dump(result, file, store_objective=False)
    results = [skopt.load(file) for file in files]
    cov = pretrain(results, space=SPACE, combine="pool", **QUICK)
    assert [c.name for c in cov.campaigns] == ["table 1", "table 2"]
    assert cov.record.target == "objective"
    tables = [pd.DataFrame(r.x_iters, columns=["lr", "act"]).assign(loss=r.func_vals) for r in results]
    assert pretrain(tables, "loss", SPACE, combine="pool", **QUICK).fixed == cov.fixed
    refused = CliRunner().invoke(app, ["pretrain", str(files[0]), "--target", "objective"])
    assert refused.exit_code == 2
    assert "could run code" in " ".join(refused.output.split())
    assert "skopt.load(file)" in " ".join(refused.output.split())


@pytest.mark.filterwarnings("ignore:the study")
def test_what_cannot_be_pooled_is_said(studies):
    table = pd.DataFrame({"lr": [1e-3], "act": ["relu"], "y": [1.0]})
    for tables, target, words in (
        ([3, table], "y", "needs a list of DataFrames"),
        ([table, table], ["y", "y"], "one target"),
        ([studies[0], table], None, "tables call their target"),
    ):
        with pytest.raises(TableError, match=words):
            pretrain(tables, target, SPACE, combine="pool", **QUICK)


def test_the_command_line_takes_files_of_these_frames(studies, summary, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    frames(studies).to_csv("optuna.csv", index=False)
    summary.to_csv("ax.csv", index=False)
    options = ["--trainer", "gp", "--out", "a.mkbo.json"]
    made = run(app, ["pretrain", "optuna.csv", "--target", "value", "--by", "study", *options])
    assert made.exit_code == 0, made.output
    text = " ".join(made.output.split())
    assert LEFT_OUT in text
    assert "'user_attrs_host', 'state', 'study'] are no parameters" in text
    cov = PretrainedCovariance.load("a.mkbo.json")
    assert set(cov.space.names) == {"params_lr", "params_act"}
    assert [c.name for c in cov.campaigns] == ["study 0", "study 1"]
    made = run(app, ["pretrain", "ax.csv", "--target", "loss", *options])
    assert made.exit_code == 0, made.output
    assert "3 trials are left out" in made.output
    assert set(PretrainedCovariance.load("a.mkbo.json").space.names) == {"lr", "act"}
    checked = run(app, ["check", "ax.csv", "--target", "loss"])
    assert checked.exit_code == 0, checked.output
    assert "parameter lr" in checked.output
    assert "parameter arm_name" not in checked.output


def test_words_for_missing_values_are_levels_where_the_space_says_so(studies, tmp_path):
    table = frames(studies)
    table["params_act"] = table["params_act"].replace({"tanh": "None", "relu": "NA"})
    table.to_csv(tmp_path / "trials.csv", index=False)
    space = ParameterSpace.from_dict({"lr": (1e-4, 1e-1, "log"), "act": ["NA", "None"]})
    with pytest.warns(TableWarning, match="6 trials are left out"), pytest.warns(TableWarning, match="no parameters"):
        read, _ = read_trials_file(tmp_path / "trials.csv", space)
    assert set(read["act"]) == {"NA", "None"}
    for given, levels, name in ((space, ["act"], "act"), (None, ["params_act"], "params_act")):
        with pytest.warns(TableWarning, match="6 trials"), pytest.warns(TableWarning, match="no parameters"):
            read, _ = read_trials_file(tmp_path / "trials.csv", given, levels)
        assert set(read[name]) == {"NA", "None"}


def _frame(**columns):
    """Return six trials as Optuna writes them, with other columns in place of some."""
    X = SPACE.from_raw(SPACE.sobol(6))
    trials = pd.DataFrame(X).add_prefix("params_").assign(value=[loss(**x) for x in X], state="COMPLETE")
    return trials.assign(**columns)


@pytest.mark.parametrize(
    "states",
    [
        pd.Categorical(["COMPLETE"] * 4 + [None, "FAIL"]),
        pd.array(["COMPLETE"] * 4 + [None, "FAIL"], dtype="string"),
        pd.array(["COMPLETE"] * 4 + [None, "FAIL"], dtype=object),
    ],
    ids=lambda states: str(states.dtype),
)
def test_trials_without_a_state_are_counted_whatever_holds_the_states(states):
    with pytest.warns(TableWarning, match="2 trials are left out, not being COMPLETE: 1 without a state, 1 FAIL"):
        assert len(completed(_frame(state=states), SPACE.names)) == 4


def test_states_of_another_kind_and_columns_twice_are_no_crash():
    assert export_of(_frame(state=[["COMPLETE"]] * 6)) is None
    of_ax = _frame(arm_name="0_0", trial_status=pd.Series([["COMPLETED"], *["COMPLETED"] * 5], dtype=object))
    with pytest.warns(TableWarning, match=r"1 trial is left out, not being COMPLETED: 1 \['COMPLETED'\]"):
        assert len(completed(of_ax)) == 5
    for table, name in ((_frame(), "state"), (of_ax, "trial_status")):
        with pytest.raises(SpaceError, match=f"'{name}'.*more than once"):
            completed(pd.concat([table, table[[name]]], axis=1))
    table = _frame().rename(columns=lambda name: name.removeprefix("params_")).drop(columns="state")
    with pytest.raises(SpaceError, match=r"'act'.*more than once"):
        pretrain([pd.concat([table, table[["act"]]], axis=1), table], "value", SPACE, combine="pool", **QUICK)
    named = [table.assign(study_name=name) for name in "ab"]
    assert len(pretrain(named, "value", SPACE, combine="pool", **QUICK).campaigns) == 2


def test_results_that_are_none_are_said():
    result = SimpleNamespace(x_iters=[[1e-3, "relu"]] * 3, func_vals=[1.0, 2.0], space=None)
    with pytest.raises(TableError, match="table must be"):
        pretrain(result, None, SPACE, **QUICK)
    result.space = SimpleNamespace(dimensions=[SimpleNamespace(name=name) for name in SPACE.names])
    with pytest.raises(TableError, match=r"3 points in x_iters, and func_vals of shape \(2,\)"):
        pretrain(result, None, SPACE, **QUICK)
