"""`mkbo suggest` as a lab uses it: tables in, tables out."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.core.gp.spacing import least_distance
from tests.conftest import shared_file

pytest.importorskip("botorch")

SUGGEST = ("suggest", "--covariance", "a.mkbo.json")


def _suggestions(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["suggestions"]


def test_the_next_experiments_are_explained(run, folder):
    result = run(*SUGGEST, "--done", "done.csv", "--space", "space.toml", "-n", 3)
    assert result.exit_code == 0, result.output
    for words in ("6 experiments measured, 0 pending", "best hardness", "±", "the table predicts", "exp"):
        assert words in result.output


def test_the_written_table_can_be_filled_in_and_read_again(run, folder, done):
    assert run(*SUGGEST, "--done", "done.csv", "-n", 2, "--out", "next.csv").exit_code == 0
    suggested = pd.read_csv("next.csv")
    assert suggested["hardness"].isna().all()
    assert (suggested["uncertainty"] > 0).all()
    pd.concat([done, suggested]).to_csv("done.csv", index=False)
    result = run(*SUGGEST, "--done", "done.csv", "--json")
    (new,) = _suggestions(result)
    assert json.loads(result.stdout)["pending"] == 2
    tried = pd.read_csv("done.csv")[list(new["point"])].to_dict("records")
    assert new["point"] not in tried


def test_measured_suggestions_are_not_replaced_before_they_are_passed_on(run, folder, done):
    again = (*SUGGEST, "--done", "done.csv", "-n", 2, "--out", "next.csv")
    assert run(*again).exit_code == 0
    filled = pd.read_csv("next.csv").assign(hardness=[3.0, None])
    filled.to_csv("next.csv", index=False)
    before = Path("next.csv").read_bytes()
    result = run(*again)
    assert result.exit_code == 2
    assert "line 2 of next.csv" in " ".join(result.output.split())
    assert Path("next.csv").read_bytes() == before
    pd.concat([done, filled]).to_csv("done.csv", index=False)
    assert run(*again).exit_code == 0
    assert pd.read_csv("next.csv")["hardness"].isna().all()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("power,rate,layers,gas,hardness\n1000,50,2,Argon,3.5\n", "no column 'predicted'"),
        ("speed,gap\n1,2\n", "not a table of suggestions for these parameters"),
        ("years of work", "not a table of suggestions for these parameters"),
    ],
)
def test_a_table_of_another_kind_is_not_replaced(run, folder, content, reason):
    Path("data.csv").write_text(content)
    result = run(*SUGGEST, "--done", "done.csv", "--out", "data.csv")
    assert result.exit_code == 2
    said = " ".join(result.output.split())
    assert "data.csv would be replaced" in said
    assert reason in said
    assert "delete it" in said
    assert Path("data.csv").read_text() == content


def test_pending_rows_move_the_next_suggestion_elsewhere(run, folder, done):
    first, second = _suggestions(run(*SUGGEST, "--done", "done.csv", "-n", 2, "--json"))
    pending = pd.DataFrame([first["point"]])
    pd.concat([done, pending]).to_csv("pending.csv", index=False)
    (after,) = _suggestions(run(*SUGGEST, "--done", "pending.csv", "--json"))
    assert after["point"] == second["point"] != first["point"]


def test_suggestions_made_together_do_not_depend_on_the_unit_and_are_no_twins(run, folder, done):
    waves = np.sin(done["power"] / 900)
    for name, unit in (("whole.csv", 1.0), ("small.csv", 1e-3)):
        done.assign(hardness=unit * waves).to_csv(name, index=False)
    whole, small = (_suggestions(run(*SUGGEST, "--done", n, "-n", 2, "--json")) for n in ("whole.csv", "small.csv"))
    assert [entry["point"] for entry in whole] == [entry["point"] for entry in small]
    first, second = (entry["point"] for entry in small)
    assert abs(first["power"] - second["power"]) > 54 or first["layers"] != second["layers"]


def test_the_same_command_gives_the_same_suggestions_and_the_seed_counts(run, folder):
    command = (*SUGGEST, "--done", "done.csv", "-n", 2, "--json")
    assert run(*command).stdout == run(*command).stdout
    start = (*SUGGEST, "--direction", "same", "--json")
    assert _suggestions(run(*start)) != _suggestions(run(*start, "--seed", 1))


def test_suggestions_are_points_of_the_space_in_settable_steps(run, folder, gp_cov):
    for entry in _suggestions(run(*SUGGEST, "--done", "done.csv", "-n", 3, "--json")):
        gp_cov.space.to_raw(entry["point"])
        assert 100 <= entry["point"]["power"] <= 5500
        assert entry["point"]["power"] == round(entry["point"]["power"])
        assert entry["point"]["layers"] in range(1, 7)


def test_minimising_is_maximising_the_negative(run, folder, done):
    done.assign(hardness=-done["hardness"]).to_csv("negative.csv", index=False)
    (up,) = _suggestions(run(*SUGGEST, "--done", "done.csv", "--json"))
    (down,) = _suggestions(run(*SUGGEST, "--done", "negative.csv", "--minimise", "--json"))
    assert down["point"] == up["point"]
    assert down["predicted"] == pytest.approx(-up["predicted"], rel=1e-6)
    assert down["chance"] == pytest.approx(up["chance"], rel=1e-6)


def test_reasons_agree_with_the_numbers(run, folder):
    result = run(*SUGGEST, "--done", "done.csv", "-n", 3, "--json")
    best = json.loads(result.stdout)["best"]
    for entry in _suggestions(result):
        assert (entry["reason"] == "exploit") == (entry["predicted"] > best) == (entry["chance"] > 0.5)


@pytest.mark.parametrize("direction", ["same", "opposite", "unknown"])
def test_first_experiments_come_from_the_table(run, folder, gp_cov, table, direction):
    first = _suggestions(run(*SUGGEST, "-n", 3, "--direction", direction, "--json"))
    assert all(entry["reason"] == "start" and entry["predicted"] is None for entry in first)
    said = np.array([entry["table_says"] for entry in first])
    np.testing.assert_allclose(said, gp_cov.predict([entry["point"] for entry in first]), rtol=1e-9)
    if direction != "unknown":
        assert (said.mean() > table["strength"].mean()) == (direction == "same")
    one_done = pd.DataFrame([first[0]["point"]]).assign(hardness=2.0)
    one_done.to_csv("one.csv", index=False)
    rest = _suggestions(run(*SUGGEST, "--done", "one.csv", "-n", 2, "--direction", direction, "--json"))
    assert [entry["point"] for entry in rest] == [entry["point"] for entry in first[1:]]


def test_a_known_direction_is_about_good_experiments_once_there_is_a_model(run, folder, done):
    done.assign(hardness=-done["hardness"]).to_csv("negated.csv", index=False)

    def first(table, *arguments):
        return _suggestions(run(*SUGGEST, "--done", table, "--json", *arguments))[0]

    up = first("done.csv", "--direction", "same")
    down = first("negated.csv", "--direction", "same", "--minimise")
    assert up["point"] == down["point"]
    assert down["predicted"] == pytest.approx(-up["predicted"], rel=1e-6)
    for other in ((), ("--direction", "opposite")):
        assert first("done.csv", *other)["predicted"] != pytest.approx(up["predicted"], rel=1e-6)
    assert first("done.csv") == first("done.csv", "--direction", "unknown")


def test_candidates_are_rows_of_a_table_each_tried_once(run, folder, table):
    pool = table.drop(columns="strength").iloc[:9].assign(sample=[f"S{i}" for i in range(9)])
    pool.to_excel("pool.xlsx", index=False)
    command = (*SUGGEST, "--done", "done.csv", "--candidates", "pool.xlsx")
    assert run(*command, "-n", 3, "--out", "next.xlsx").exit_code == 0
    assert set(pd.read_excel("next.xlsx")["sample"]) == {"S6", "S7", "S8"}
    too_many = run(*command, "-n", 4)
    assert too_many.exit_code == 2
    assert "3 of 9 candidates are left" in too_many.output


def test_a_candidate_listed_twice_is_tried_twice(run, folder, table):
    pool = table.drop(columns="strength").iloc[[0, 0, 1, 2, 3, 4, 5]]
    pool.to_csv("pool.csv", index=False)
    (left,) = _suggestions(run(*SUGGEST, "--done", "done.csv", "--candidates", "pool.csv", "--json"))
    assert left["candidate"] == 1


def test_a_constant_parameter_is_fixed(run, folder, done):
    done.drop(columns="gas").to_csv("air.csv", index=False)
    (entry,) = _suggestions(run(*SUGGEST, "--done", "air.csv", "--fix", "gas=Air", "--json"))
    assert "gas" not in entry["point"]


def test_stock_ignores_the_table(run, folder, done, cov):
    cov.save("other.mkbo.json")
    command = ("--done", "done.csv", "--form", "stock", "--json")
    one, other = (
        _suggestions(run("suggest", "--covariance", name, *command))[0] for name in ("a.mkbo.json", "other.mkbo.json")
    )
    assert (one["point"], one["predicted"]) == (other["point"], other["predicted"])


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        ({}, ["--done", "absent.csv"], "absent.csv does not exist"),
        ({"hardness": ["soft", *[1.0] * 5]}, [], "'soft'"),
        ({"power": ["?", *[1.0] * 5]}, [], "'power'"),
        ({"gas": "Xenon"}, [], "'Xenon'"),
        ({"remark": "x"}, [], "--target"),
        ({}, ["--target", "gas"], "'gas'"),
        ({}, ["--form", "magic"], "'magic'"),
        ({}, ["--form", "stock", "--direction", "same"], "form='stock' does without the table"),
        ({}, ["--fix", "gas=Xenon"], "gas=Xenon does not hold"),
        ({}, ["--fix", "gas"], "NAME=VALUE"),
        ({}, ["--fix", "colour=1"], "'colour'"),
        ({}, ["--out", "absent/next.csv"], "its folder does not exist"),
    ],
)
def test_bad_input_is_a_sentence(run, folder, done, change, arguments, words):
    done.assign(**change).to_csv("done.csv", index=False)
    result = run(*SUGGEST, "--done", "done.csv", *arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("column", [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [None, None, 3.0, 4.0, None, 6.0]])
def test_outcomes_in_another_column_than_the_expected_one_are_noticed(run, folder, done, column):
    done.assign(strength=None, quality=column).drop(columns="hardness").to_csv("done.csv", index=False)
    result = run(*SUGGEST, "--done", "done.csv")
    assert result.exit_code == 2
    assert "'strength', is empty, but ['quality'] hold numbers" in result.output
    assert "--target quality" in result.output
    said = json.loads(run(*SUGGEST, "--done", "done.csv", "--target", "quality", "--json").stdout)
    assert said["measured"] == sum(value is not None for value in column)
    assert json.loads(run(*SUGGEST, "--done", "done.csv", "--target", "strength", "--json").stdout)["pending"] == 6


def test_an_outcome_that_candidates_have_too_can_be_named(run, folder, done, table):
    table.rename(columns={"strength": "hardness"}).to_csv("pool.csv", index=False)
    command = (*SUGGEST, "--done", "done.csv", "--candidates", "pool.csv")
    result = run(*command)
    assert result.exit_code == 2
    assert "--target hardness" in result.output
    assert run(*command, "--target", "hardness", "--out", "next.csv").exit_code == 0
    assert pd.read_csv("next.csv")["hardness"].isna().all()


def test_rows_of_the_suggestions_appended_as_they_are(run, folder):
    assert run(*SUGGEST, "--done", "done.csv", "--out", "next.csv").exit_code == 0
    with (folder / "done.csv").open("a") as file:
        file.write((folder / "next.csv").read_text().splitlines()[1] + "\n")
    result = run(*SUGGEST, "--done", "done.csv")
    assert result.exit_code == 2
    assert "line 8 has 11 values, but the header in line 1 has 5; rows of another table" in result.output


@pytest.mark.parametrize("name", ["done.csv", "pool.csv"])
def test_values_outside_the_bounds_are_noted(run, folder, done, name):
    pool = done.drop(columns="hardness").assign(layers=2)
    (done if name == "done.csv" else pool).loc[2, "power"] = 9000.0
    done.to_csv("done.csv", index=False)
    pool.to_csv("pool.csv", index=False)
    result = run(*SUGGEST, "--done", "done.csv", "--candidates", "pool.csv", "--space", "space.toml")
    assert result.exit_code == 0, result.output
    assert f"note: column 'power' lies outside its bounds (100, 5500) in line 4 of {name}: 9000" in result.output


@pytest.mark.parametrize("columns", [{"power": "Power"}, {"power": "pwoer"}])
def test_a_renamed_parameter_is_named(run, folder, done, columns):
    done.rename(columns=columns).to_csv("done.csv", index=False)
    result = run(*SUGGEST, "--done", "done.csv")
    assert result.exit_code == 2
    assert "['power'] are missing" in result.output
    assert f"did you mean {columns['power']!r}?" in result.output


def test_a_padded_name_is_read_with_a_note(run, folder, done):
    done.rename(columns={"power": "power "}).to_csv("done.csv", index=False)
    result = run(*SUGGEST, "--done", "done.csv")
    assert result.exit_code == 0, result.output
    assert "blanks around the column names ['power ']" in result.output


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"power": [200.0, "4,1", *[300.0] * 4]}, "'4,1' with a decimal comma (write 4.1) (line 3 of done.csv)"),
        ({"hardness": [1.0, 2.0, "4,1", *[3.0] * 3]}, "'4,1' with a decimal comma (write 4.1) in line 4 of done.csv"),
    ],
)
def test_numbers_with_commas_are_named(run, folder, done, change, words):
    done.assign(**change).to_csv("done.csv", index=False)
    assert words in run(*SUGGEST, "--done", "done.csv").output


def test_equal_outcomes_are_no_ground_for_a_model(run, folder, done):
    done.assign(hardness=2.0).to_csv("done.csv", index=False)
    result = run(*SUGGEST, "--done", "done.csv")
    assert result.exit_code == 0, result.output
    assert "all outcomes so far are equal, so that no model can learn from them yet" in result.output


def test_a_campaign_without_hope_may_stop(run, folder, done):
    line = done.assign(hardness=np.arange(6.0), power=np.linspace(200, 5000, 6), rate=1e-3, layers=2, gas="Air")
    line.to_csv("done.csv", index=False)
    pool = pd.concat([line, line.iloc[[0]].assign(power=210.0)]).drop(columns="hardness")
    pool.to_csv("pool.csv", index=False)
    result = run(*SUGGEST, "--done", "done.csv", "--candidates", "pool.csv")
    assert result.exit_code == 0, result.output
    assert "nothing left that is likely to beat the best so far, 5; you may stop" in result.output


def test_a_list_of_candidates_comes_to_an_end(run, folder, done):
    for rows, words in (([0], "the only candidate has been tried"), ([0, 1], "all 2 candidates have been tried")):
        done.drop(columns="hardness").iloc[rows].to_csv("pool.csv", index=False)
        result = run(*SUGGEST, "--done", "done.csv", "--candidates", "pool.csv")
        assert result.exit_code == 2
        assert words in result.output


def test_a_table_of_labels_speaks_for_one(run, folder, table):
    passed = table["strength"] > table["strength"].median()
    labels = table.assign(strength=passed)
    pretrain(
        labels, "strength", ParameterSpace.from_table(labels, "strength"), task="classification", trainer="gp"
    ).save("labels.mkbo.json")
    result = run("suggest", "--covariance", "labels.mkbo.json", "--direction", "same")
    assert result.exit_code == 0, result.output
    assert "decision value for strength is" in result.output
    assert "speaks for 'True'" in result.output


def test_missing_botorch_names_the_extra(run, folder, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("mkbo_plugins.botorch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botorch", None)
    result = run(*SUGGEST, "--done", "done.csv")
    assert result.exit_code == 2
    assert "mkbo_plugins[botorch]" in result.output


def test_a_kill_at_any_moment_loses_nothing(folder):
    arguments = [*SUGGEST, "--done", "done.csv", "--out", "next.csv"]
    program = [sys.executable, "-c", f"import sys; sys.argv[1:] = {arguments}; from mkbo_plugins.cli import app; app()"]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    subprocess.run(program, check=True, capture_output=True)
    whole = (folder / "next.csv").read_bytes()
    for seconds in (0.5, 2.5, 4.0):
        (folder / "next.csv").unlink(missing_ok=True)
        process = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (folder / "next.csv").exists() or (folder / "next.csv").read_bytes() == whole
        assert all((folder / name).read_bytes() == content for name, content in before.items())
    subprocess.run(program, check=True, capture_output=True)
    assert (folder / "next.csv").read_bytes() == whole


def test_a_script_of_tables_alone_equals_the_botorch_loop(run, tmp_path, monkeypatch):
    import torch
    from botorch.acquisition import qLogNoisyExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.sampling import SobolQMCNormalSampler
    from gpytorch.mlls import ExactMarginalLogLikelihood

    from mkbo_plugins.botorch import pretrained_gp
    from mkbo_plugins.experiments.lig_graphene import SPACE, TARGET

    data = pd.read_csv(shared_file("data/lig_graphene.csv"))
    source = data[data["precursor"] == "PI"].sample(80, random_state=0)
    pool = data[data["precursor"] == "GOPI"].reset_index(drop=True)
    monkeypatch.chdir(tmp_path)
    pretrain(source, TARGET, SPACE, trainer="gp").save("pi.mkbo.json")
    pool[list(SPACE.names)].assign(row=range(len(pool))).to_csv("pool.csv", index=False)
    start, rounds = [3, 50, 120], 15

    pd.read_csv("pool.csv").iloc[start].assign(**{TARGET: pool[TARGET][start]}).to_csv("done.csv", index=False)
    for _ in range(rounds):
        command = ("suggest", "--covariance", "pi.mkbo.json", "--done", "done.csv", "--candidates", "pool.csv")
        assert run(*command, "--out", "next.csv").exit_code == 0
        measured = pd.read_csv("next.csv")
        measured[TARGET] = pool[TARGET][measured["row"]].to_numpy()
        pd.concat([pd.read_csv("done.csv"), measured]).to_csv("done.csv", index=False)

    cov = PretrainedCovariance.load("pi.mkbo.json")
    X, Y = torch.tensor(SPACE.to_raw(pool)), torch.tensor(pool[TARGET].to_numpy())[:, None]
    indices = list(start)
    for _ in range(rounds):
        torch.manual_seed(0)  # the host draws unseeded when it leaves out points that are unlikely to be the best
        model = pretrained_gp(cov, X[indices], Y[indices])
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        sampler = SobolQMCNormalSampler(torch.Size([256]), seed=0)
        improvement = qLogNoisyExpectedImprovement(model, X[indices], sampler, tau_relu=1e-6, tau_max=1e-6)
        with torch.no_grad():
            merit = improvement(X[:, None, :])
        merit[indices] = -torch.inf
        indices.append(int(merit.argmax()))
    assert pd.read_csv("done.csv")["row"].tolist() == indices


def test_a_constant_that_does_not_hold_is_refused(run, folder, done):
    name = done.columns[0]
    value = done[name].iloc[0]
    result = run(*SUGGEST, "--done", "done.csv", "--fix", f"{name}={value}")
    assert result.exit_code == 2
    assert f"column {name!r} has other values" in " ".join(result.output.split())
    done.assign(**{name: value}).to_csv("done.csv", index=False)
    assert run(*SUGGEST, "--done", "done.csv", "--fix", f"{name}={value}").exit_code == 0
    done.drop(columns=["hardness"]).to_csv("stock.csv", index=False)
    result = run(*SUGGEST, "--candidates", "stock.csv", "--fix", f"{name}={value}")
    assert result.exit_code == 2


@pytest.mark.parametrize(("fix", "words"), [(("Power=3",), "not pre-trained"), (("{0}=1", "{0}=2"), "twice")])
def test_wrong_constants_are_named(run, folder, done, fix, words):
    options = [part for one in fix for part in ("--fix", one.format(done.columns[0]))]
    result = run(*SUGGEST, *options)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())


@pytest.mark.parametrize("unit", [1e9, 1e-12])
def test_suggestions_do_not_depend_on_the_unit_of_the_outcome(run, folder, done, unit):
    plain = json.loads(run(*SUGGEST, "--done", "done.csv", "-n", 3, "--json").stdout)
    done.assign(hardness=unit * done["hardness"]).to_csv("done.csv", index=False)
    scaled = json.loads(run(*SUGGEST, "--done", "done.csv", "-n", 3, "--json").stdout)
    assert scaled["noise"] == pytest.approx(unit * plain["noise"], rel=1e-3)
    for one, other in zip(plain["suggestions"], scaled["suggestions"], strict=True):
        assert other["point"] == one["point"]
        assert other["predicted"] == pytest.approx(unit * one["predicted"], rel=1e-3)
        assert other["uncertainty"] == pytest.approx(unit * one["uncertainty"], rel=1e-3)
        assert other["chance"] == pytest.approx(one["chance"], abs=1e-3)


@pytest.mark.parametrize("form", ["stock", "transfer_link", "two_layer"])
def test_the_verdict_is_for_the_form_in_use(run, folder, table, gp_cov, form):
    done = table.iloc[:12].rename(columns={"strength": "hardness"})
    done.to_csv("done.csv", index=False)
    result = run(*SUGGEST, "--done", "done.csv", "--form", form, "--json")
    assert result.exit_code == 0, result.output
    expected = gp_cov.verdict(done[list(gp_cov.space.names)], done["hardness"].to_numpy(), form)
    said = json.loads(result.stdout)["table_helps"]
    assert said["answer"] == expected.answer
    assert (said["form"], said["instead"]) == (form, expected.instead)
    assert said["form_log_ratio"] == pytest.approx(expected.form_log_ratio, abs=1e-6)


@pytest.mark.parametrize("word", ["failed", " Failed"])
def test_failed_experiments_are_counted_and_kept_away_from(run, folder, done, word):
    (first,) = _suggestions(run(*SUGGEST, "--done", "done.csv", "--json"))
    pd.concat([done, pd.DataFrame([first["point"]]).assign(hardness=word)]).to_csv("failed.csv", index=False)
    result = run(*SUGGEST, "--done", "failed.csv", "--json")
    (after,) = _suggestions(result)
    content = json.loads(result.stdout)
    assert (content["measured"], content["pending"], content["failed"]) == (6, 0, 1)
    assert after["predicted"] != first["predicted"]
    gas, power = (after["point"]["gas"] != first["point"]["gas"], after["point"]["power"] - first["point"]["power"])
    assert gas or abs(power) > 200 or after["point"]["layers"] != first["point"]["layers"]
    assert "6 experiments measured, 0 pending, 1 failed" in run(*SUGGEST, "--done", "failed.csv").output


def test_any_other_word_than_failed_is_refused(run, folder, done):
    done.astype({"hardness": object}).assign(hardness=[1.0, "failed", "n.a.!", 2.0, None, 3.0]).to_csv(
        "odd.csv", index=False
    )
    result = run(*SUGGEST, "--done", "odd.csv")
    assert result.exit_code == 2
    assert "must be numbers, empty while pending, or the word 'failed', got 'n.a.!' in line 4" in " ".join(
        result.output.split()
    )


def test_first_experiments_differ_and_say_no_more_than_is_true(run, folder, gp_cov):
    suggestions = _suggestions(run(*SUGGEST, "--direction", "same", "-n", 4, "--json"))
    space = gp_cov.space
    unit = space.to_coordinates(space.to_raw([entry["point"] for entry in suggestions]), "unit")
    assert pdist(unit).min() >= least_distance(len(space.names))
    assert [entry["why"].startswith("far from other points") for entry in suggestions] == [False, True, True, True]
    assert suggestions[0]["why"].startswith("a first point and good by the table")
    pool = pd.DataFrame(
        [suggestions[0]["point"]] * 2 + [suggestions[0]["point"] | {"power": suggestions[0]["point"]["power"] - 9}]
    )
    pool.to_csv("near.csv", index=False)
    near = _suggestions(run(*SUGGEST, "--direction", "same", "-n", 3, "--candidates", "near.csv", "--json"))
    assert near[1]["why"].startswith("as far from other points as there is room for, 0.00")
    assert near[2]["why"].startswith("equal to another point, as it is listed again")


def test_after_three_failures_experiments_scatter_whatever_the_table_says(run, folder, gp_cov):
    tried = []
    for k in range(5):
        if tried:
            pd.DataFrame(tried).assign(hardness="failed").to_csv("all_failed.csv", index=False)
        done = ["--done", "all_failed.csv"] if tried else []
        (entry,) = _suggestions(run(*SUGGEST, *done, "--direction", "same", "--target", "hardness", "--json"))
        assert ("not chosen by the table" in entry["why"]) == (k >= 3)
        tried.append(entry["point"])
    unit = gp_cov.space.to_coordinates(gp_cov.space.to_raw(tried), "unit")
    assert pdist(unit).min() >= least_distance(len(gp_cov.space.names))


def test_outcomes_that_failed_need_not_be_passed_on_twice(run, folder, done):
    again = (*SUGGEST, "--done", "done.csv", "--out", "next.csv")
    assert run(*again).exit_code == 0
    filled = pd.read_csv("next.csv").astype({"hardness": object}).assign(hardness="failed")
    filled.to_csv("next.csv", index=False)
    assert run(*again).exit_code == 2
    pd.concat([done, filled]).to_csv("done.csv", index=False)
    assert run(*again).exit_code == 0


def test_a_measured_number_between_ordered_levels_is_taken_at_its_value(run, folder):
    space = ParameterSpace.from_dict({"heat": [10, 20, 50], "time": (0.0, 1.0)})
    raw = space.sobol(16)
    table = pd.DataFrame(raw, columns=["heat", "time"]).assign(y=raw @ [0.1, 2.0])
    cov = pretrain(table, "y", space, trainer="gp", progress=False)
    cov.save("ordered.mkbo.json")
    measured = pd.DataFrame({"heat": [10.2, 20.3, 49.6, 20], "time": [0.1, 0.5, 0.6, 0.9], "y": [1.2, 3.0, 6.3, 3.9]})
    measured.to_csv("measured.csv", index=False)
    (entry,) = _suggestions(run("suggest", "--covariance", "ordered.mkbo.json", "--done", "measured.csv", "--json"))
    assert entry["point"]["heat"] in (10, 20, 50)
    assert cov.predict(measured) == pytest.approx(measured.heat * 0.1 + 2 * measured.time, abs=0.2)
    far = measured.assign(heat=[10, 20, 50, 500])
    far.to_csv("measured.csv", index=False)
    result = run("suggest", "--covariance", "ordered.mkbo.json", "--done", "measured.csv", "--json")
    assert "column 'heat' lies outside its bounds (10, 50) in line 5" in " ".join(result.stderr.split())
