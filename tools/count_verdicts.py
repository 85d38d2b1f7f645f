"""Count how often verdicts are right: ``python tools/count_verdicts.py TABLES OUT [FORM]``.

Campaigns on pairs of tasks drawn from the folder TABLES, of the half that no choice was made on, are run with the stock
model and with a form, unless OUT has them, and each is judged after 15 trials. A problem is certainly helped or harmed
by the form where the 95 % interval of the difference of its mean regret to that of stock, seeds resampled, does
not contain 0.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.core.gp.bayes_factor import judge
from mkbo_plugins.experiments.benchmark.campaign import STARTS, Record
from mkbo_plugins.experiments.benchmark.metrics import compare
from mkbo_plugins.experiments.benchmark.runner import Plan, campaign_key, drawn_names, load, run
from mkbo_plugins.experiments.store import RunStore

PAIRS, SEEDS, TRIALS, JUDGED = 100, 12, 25, STARTS + 15
N_JOBS = 2


def verdict(plan: Plan, problem: str, seed: int, form: str, data: Path, out: Path) -> dict[str, object] | None:
    """Return the verdict after 15 trials of a campaign with a form; None where all outcomes are equal."""
    record = RunStore(out / "campaigns", Record).get(campaign_key(plan, problem, form, seed))
    assert record is not None
    lookup = load(problem, plan.member(problem, seed), plan, data, out / "knowledge")
    tried = np.array(record.indices[:JUDGED])
    y = lookup.problem.outcome[tried]
    if np.ptp(y) == 0:
        return None
    found = judge(lookup.parts, lookup.candidates.points(tried, lookup.unit.shape[1]), y, form=form)
    ratios = {"log_ratio": found.log_ratio, "form_log_ratio": found.form_log_ratio, "instead": found.instead}
    return {"problem": problem, "seed": seed, "answer": str(found.answer), "warns": found.warns, **ratios}


def main(data: Path, out: Path, form: str) -> None:
    """Print how many verdicts of each kind problems got that were helped, harmed, or neither."""
    plan = Plan(
        drawn_names(data, PAIRS, claim=True),
        ("stock", form),
        SEEDS,
        TRIALS,
        claim=True,
        trainer="svm",
        acquisition="nei",
        repeats=True,
    )
    compared = compare(run(plan, out, data, n_jobs=N_JOBS)).query("model == @form").set_index("problem")
    sides = [compared["difference_high"] < 0, compared["difference_low"] > 0]
    effect = pd.Series(np.select(sides, ["helped", "harmed"], "neither"), compared.index, name="effect")
    jobs = [
        delayed(verdict)(plan, problem, seed, form, data, out) for problem in plan.problems for seed in range(SEEDS)
    ]
    verdicts = pd.DataFrame([row for row in Parallel(N_JOBS)(jobs) if row is not None]).join(effect, on="problem")
    verdicts.to_csv(out / f"verdicts_{form}.csv", index=False)
    print(effect.value_counts().to_string())
    print(pd.crosstab(verdicts["effect"], verdicts["answer"]).to_string())
    print(pd.crosstab(verdicts["effect"], verdicts["warns"]).to_string())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else DEFAULT_FORM)
