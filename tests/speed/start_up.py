"""Time the first suggestion of a process, imports included, with a pre-trained covariance and with the host's model.

Run by hand: ``python -m tests.speed.start_up [--runs 7] [--artefact FILE] [--hosts botorch ax skopt]``. Every figure is
of a process of its own, stock and pre-trained in turn; times are the CPU's from the start of the interpreter on.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from statistics import median

TARGETS = 10
MOST_EXTRA, MOST_IMPORT = 0.5, 0.15
HOSTS = ("botorch", "ax", "skopt")


def botorch(problem, artefact):
    """Suggest by BoTorch: a fit and an optimisation of expected improvement over raw bounds."""
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    X, Y = (
        torch.tensor(problem["raw"], dtype=torch.double),
        torch.tensor(problem["values"], dtype=torch.double)[:, None],
    )
    bounds = torch.tensor(problem["bounds"], dtype=torch.double)
    if artefact is None:
        model = SingleTaskGP(X, Y, input_transform=Normalize(X.shape[1], bounds=bounds))
    else:
        from mkbo_plugins import PretrainedCovariance
        from mkbo_plugins.botorch import pretrained_gp

        model = pretrained_gp(PretrainedCovariance.load(artefact), X, Y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    acquisition = LogExpectedImprovement(model, best_f=Y.max())
    optimize_acqf(acquisition, bounds, q=1, num_restarts=10, raw_samples=512)


def ax(problem, artefact):
    """Suggest by Ax: the next trial of a client with attached ones."""
    if artefact is not None:
        import mkbo_plugins.ax
    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    def configured(name, spec):
        if "levels" in spec:
            return ChoiceParameterConfig(name, spec["levels"], parameter_type="str", is_ordered=False)
        kind, scaling = "int" if spec["integer"] else "float", "log" if spec["log"] else "linear"
        return RangeParameterConfig(name, tuple(spec["bounds"]), parameter_type=kind, scaling=scaling)

    client = Client(random_seed=0)
    client.configure_experiment([configured(name, spec) for name, spec in problem["parameters"].items()])
    client.configure_optimization("y")
    if artefact is None:
        client.configure_generation_strategy(initialization_budget=0, initialize_with_center=False)
    for point, value in zip(problem["points"], problem["values"], strict=True):
        client.complete_trial(client.attach_trial(point), {"y": value})
    if artefact is not None:
        from mkbo_plugins import PretrainedCovariance

        mkbo_plugins.ax.use_pretrained(client, PretrainedCovariance.load(artefact))
    client.get_next_trials(1)
    used = client._generation_strategy.current_node_name
    assert (used == "MBM") == (artefact is None), used


def skopt(problem, artefact):
    """Suggest by scikit-optimize: an ask after all were told."""
    from skopt import Optimizer
    from skopt.space import Categorical, Integer, Real

    def dimension(name, spec):
        if "levels" in spec:
            return Categorical(spec["levels"], name=name)
        kind = Integer if spec["integer"] else Real
        return kind(*spec["bounds"], prior="log-uniform" if spec["log"] else "uniform", name=name)

    dimensions = [dimension(name, spec) for name, spec in problem["parameters"].items()]
    model = "GP"
    if artefact is not None:
        from mkbo_plugins import PretrainedCovariance
        from mkbo_plugins.skopt import pretrained_regressor

        model = pretrained_regressor(PretrainedCovariance.load(artefact), dimensions)
    optimiser = Optimizer(dimensions, model, n_initial_points=TARGETS, random_state=0)
    optimiser.tell([list(point.values()) for point in problem["points"]], problem["values"])
    optimiser.ask()


def problem_of(cov, seed):
    """Return parameters, points and values near the table's, as JSON holds them."""
    import numpy as np

    from mkbo_plugins.space.parameters import Numeric

    space, parameters = cov.space, {}
    for p in space.parameters:
        if isinstance(p, Numeric):
            parameters[p.name] = {"bounds": [p.lower, p.upper], "log": p.log, "integer": p.integer}
            if p.integer:
                parameters[p.name]["bounds"] = [int(p.lower), int(p.upper)]
        else:
            parameters[p.name] = {"levels": list(p.indexed_levels or p.levels)}
    raw = space.sobol(TARGETS, seed)
    values = cov.predict(raw) + cov.record.target_spread * np.random.default_rng(seed).normal(0, 0.1, TARGETS)
    ends = [np.ravel(p.from_unit(np.array([0.0, 1.0 - 1e-12]))) for p in space.parameters]
    return {
        "parameters": parameters,
        "raw": raw.tolist(),
        "points": space.from_raw(raw),
        "values": values.tolist(),
        "bounds": np.stack(ends, axis=1).tolist(),
    }


def timed(code, *arguments):
    """Return the seconds that a process with this code says it took."""
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    # Compiled modules are kept, as an installed package's are.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout.split()[-1])


SUGGEST = """
import json, sys, time
from tests.speed import start_up
problem = json.loads(open(sys.argv[2]).read())
getattr(start_up, sys.argv[1])(problem, sys.argv[3] if len(sys.argv) > 3 else None)
print(time.process_time())
"""

IMPORT = "import time; begin = time.process_time(); import mkbo_plugins; print(time.process_time() - begin)"


def main():
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--artefact", help="covariance to measure instead")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--hosts", nargs="+", default=HOSTS, choices=HOSTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    spent = median(timed(IMPORT) for _ in range(arguments.runs))
    print(f"import mkbo_plugins: {spent:.3f} s  {'met' if spent <= MOST_IMPORT else 'MISSED'}")
    from mkbo_plugins import PretrainedCovariance
    from tests.speed.suggestion import trained

    cov = trained() if arguments.artefact is None else PretrainedCovariance.load(arguments.artefact)
    print(f"{cov.record.target}: {cov.evaluator.describe()}; medians of {arguments.runs} processes, n = {TARGETS}")
    with tempfile.TemporaryDirectory() as folder:
        artefact, problem = cov.save(Path(folder) / "cov.mkbo.json"), Path(folder) / "problem.json"
        for host in arguments.hosts:
            stock, ours = [], []
            turns = [(stock, ()), (ours, (str(artefact),))]
            for seed in range(arguments.runs):
                problem.write_text(json.dumps(problem_of(cov, seed)))
                for found, given in turns if seed % 2 else reversed(turns):
                    found.append(timed(SUGGEST, host, str(problem), *given))
            extra = median(b - a for a, b in zip(stock, ours, strict=True))
            met = "met" if extra <= MOST_EXTRA else "MISSED"
            print(f"  {host:8s} stock {median(stock):6.2f} s, pre-trained {median(ours):6.2f} s, {extra:+.2f} s  {met}")


if __name__ == "__main__":
    main()
