"""Finished runs kept on disk, so that an interrupted experiment continues where it stopped."""

import json
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, overload

from joblib import Parallel, delayed

from mkbo_plugins.errors import MkboError
from mkbo_plugins.experiments.record import Campaign
from mkbo_plugins.files import remove_unfinished, write_atomically


class Storable(Protocol):
    """A dataclass that JSON holds: a campaign, or what else takes long to compute."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Self:
        """Return the object whose fields JSON holds."""


C = TypeVar("C", bound=Storable)


def make_folder(folder: Path) -> None:
    """Make a folder for results unless it is there, and remove what a killed run left unfinished in it.

    Raises
    ------
    MkboError
        If it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MkboError(f"cannot make the folder {folder}: {error.strerror}; choose another") from error
    remove_unfinished(folder)


def file_name(name: str) -> str:
    """Return the name of a file for what a table calls something, which is no path."""
    return name.replace("/", "%2F").replace("\\", "%5C")


class RunStore(Generic[C]):
    """Results by key in one folder, campaigns for instance, one JSON file each, written atomically.

    Parameters
    ----------
    folder
        Where the files are; made if it does not exist.
    kind
        Class of the results.
    """

    @overload
    def __init__(self: "RunStore[Campaign]", folder: Path) -> None: ...

    @overload
    def __init__(self, folder: Path, kind: type[C]) -> None: ...

    def __init__(self, folder: Path, kind: type[Any] = Campaign) -> None:
        self.folder, self.kind = folder, kind
        make_folder(folder)

    def _path(self, key: Iterable[Hashable]) -> Path:
        return self.folder / (file_name("_".join(map(str, key))) + ".json")

    def get(self, key: Iterable[Hashable]) -> C | None:
        """Return the result stored under `key`, or None.

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
            return self.kind.from_stored(stored)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise MkboError(f"{path} is damaged ({error}); delete it, and its run will be repeated") from error

    def put(self, key: Iterable[Hashable], result: C) -> None:
        """Store a result under `key`."""
        write_atomically(self._path(key), json.dumps(asdict(result)).encode())

    def complete(
        self,
        jobs: Mapping[tuple[Hashable, ...], Callable[[], C]],
        *,
        n_jobs: int,
        report: Callable[[int, int], None] | None = None,
    ) -> dict[tuple[Hashable, ...], C]:
        """Run the jobs that have no stored result, store each as it ends, and return all.

        Parameters
        ----------
        jobs
            Picklable functions by key.
        n_jobs
            Parallel processes, as joblib understands it; a backend chosen by `joblib.parallel_config` is used instead,
            Dask's for instance.
        report
            Called with the number of jobs done and the number of jobs.
        """
        done = {key: result for key in jobs if (result := self.get(key)) is not None}
        missing = [key for key in jobs if key not in done]
        if report is not None:
            report(len(done), len(jobs))
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        with (
            warnings.catch_warnings(),
            closing(parallel(delayed(_keyed)(key, jobs[key]) for key in missing)) as results,
        ):
            # joblib tells of a worker that it replaces since its memory grew, and of jobs that an interruption cut off.
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
            warnings.filterwarnings("ignore", message=r"\d+ tasks (have been|which were)")
            for key, result in results:
                self.put(key, result)
                done[key] = result
                if report is not None:
                    report(len(done), len(jobs))
        return {key: done[key] for key in jobs}


def _keyed(key: tuple[Hashable, ...], job: Callable[[], C]) -> tuple[tuple[Hashable, ...], C]:
    if torch := sys.modules.get("torch"):  # brought by the job, if it needs it
        torch.set_num_threads(1)
    return key, job()
