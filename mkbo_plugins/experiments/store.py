"""Finished runs kept on disk, so that an interrupted experiment continues where it stopped."""

import json
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from joblib import Parallel, delayed

from mkbo_plugins.errors import MkboError
from mkbo_plugins.experiments.campaign import Campaign
from mkbo_plugins.files import write_atomically


def make_folder(folder: Path) -> None:
    """Make a folder for results unless it is there.

    Raises
    ------
    MkboError
        If it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MkboError(f"cannot make the folder {folder}: {error.strerror}; choose another") from error


class RunStore:
    """Campaigns by key in one folder, one JSON file each, written atomically.

    Parameters
    ----------
    folder
        Where the files are; made if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_folder(folder)

    def _path(self, key: Iterable[Hashable]) -> Path:
        return self.folder / ("_".join(map(str, key)) + ".json")

    def get(self, key: Iterable[Hashable]) -> Campaign | None:
        """Return the campaign stored under `key`, or None.

        Raises
        ------
        MkboError
            If the stored file is damaged.
        """
        path = self._path(key)
        if not path.exists():
            return None
        try:
            stored = json.loads(path.read_text())
            return Campaign(tuple(map(int, stored["indices"])), tuple(map(float, stored["values"])))
        except (ValueError, TypeError, KeyError) as error:
            raise MkboError(f"{path} is damaged ({error}); delete it, and its run will be repeated") from error

    def put(self, key: Iterable[Hashable], campaign: Campaign) -> None:
        """Store a campaign under `key`."""
        write_atomically(self._path(key), json.dumps(asdict(campaign)).encode())

    def complete(
        self,
        jobs: Mapping[tuple[Hashable, ...], Callable[[], Campaign]],
        *,
        n_jobs: int,
        report: Callable[[int, int], None] | None = None,
    ) -> dict[tuple[Hashable, ...], Campaign]:
        """Run the jobs that have no stored result, store each as it ends, and return all.

        Parameters
        ----------
        jobs
            Picklable functions by key.
        n_jobs
            Parallel processes, as joblib understands it.
        report
            Called with the number of jobs done and the number of jobs.
        """
        done = {key: campaign for key in jobs if (campaign := self.get(key)) is not None}
        missing = [key for key in jobs if key not in done]
        if report is not None:
            report(len(done), len(jobs))
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        with warnings.catch_warnings():
            # joblib replaces a worker whose memory grows and says so; no job is lost.
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
            for key, campaign in parallel(delayed(_keyed)(key, jobs[key]) for key in missing):
                self.put(key, campaign)
                done[key] = campaign
                if report is not None:
                    report(len(done), len(jobs))
        return {key: done[key] for key in jobs}


def _keyed(key: tuple[Hashable, ...], job: Callable[[], Campaign]) -> tuple[tuple[Hashable, ...], Campaign]:
    import torch

    torch.set_num_threads(1)
    return key, job()
