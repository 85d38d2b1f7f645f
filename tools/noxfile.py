"""The suite on several Pythons, with the oldest versions allowed, and with the newest of the hosts.

``nox -f tools/noxfile.py -s tests-3.13 -- tests/core`` runs some of it; a session takes as long as the suite does.
"""

from pathlib import Path

import nox

nox.options.sessions = ["tests"]
ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
HOSTS = (
    "botorch @ git+https://github.com/meta-pytorch/botorch",
    "ax-platform @ git+https://github.com/facebook/Ax",
    "optuna @ git+https://github.com/optuna/optuna",
    "baybe @ git+https://github.com/emdgroup/baybe",
)


def install(session: nox.Session, *options: str) -> None:
    """Install the project with all that its tests need."""
    session.chdir(ROOT)
    session.install(*options, "-e", ".[all,test]")


def run(session: nox.Session) -> None:
    """Run the tests named behind ``--``, or all."""
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the suite with the newest versions that the pins allow."""
    install(session)
    run(session)


@nox.session(python=PYTHONS[0], venv_backend="uv")
def oldest(session: nox.Session) -> None:
    """Run the suite with the oldest versions that the pins allow."""
    install(session, "--resolution", "lowest-direct")
    run(session)


@nox.session(python=PYTHONS[-1], venv_backend="uv")
def hosts(session: nox.Session) -> None:
    """Run the suite with the hosts' main branches, whatever the pins say."""
    install(session)
    session.install("--no-deps", *HOSTS)
    run(session)
