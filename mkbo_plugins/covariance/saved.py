"""What is saved as a file that holds exactly it, and knows its class by a key of its content."""

import os
from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from mkbo_plugins.covariance.container import NewerVersionError, digest, pack, read, unpack, write
from mkbo_plugins.covariance.content import Reader
from mkbo_plugins.covariance.limits import MOST_BYTES
from mkbo_plugins.errors import ArtefactError, MkboError


class Saved(ABC):
    """A covariance as a file holds it."""

    def __init_subclass__(cls, kind: str | None = None) -> None:
        """Let files whose content has the key `kind` be read as this class."""
        if kind is not None:
            _KINDS[kind] = cls

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical content, as hexadecimal digits."""
        return digest(self.to_content())

    @abstractmethod
    def to_content(self) -> dict[str, Any]:
        """Return what a saved file holds of the covariance, as plain values; raises `ArtefactError` where it cannot."""

    @classmethod
    @abstractmethod
    def from_content(cls, content: Reader) -> Self:
        """Return the covariance that `to_content` gave this content for; raises `MkboError` where it is none."""

    def to_bytes(self) -> bytes:
        """Return the bytes of a saved file, after checking that they read back to this covariance.

        Raises
        ------
        ArtefactError
            If the covariance holds something no file can.
        """
        try:
            data = pack(self.to_content())
            if len(data) > MOST_BYTES:
                raise ArtefactError(
                    f"its file of {len(data) / 2**20:.1f} MiB is larger than {MOST_BYTES // 2**20} MiB; train it on "
                    "fewer rows, max_rows (--max-rows), or fewer campaigns or tables"
                )
            faithful = Saved.from_bytes(data) == self
        except ArtefactError as error:
            raise ArtefactError(f"this covariance cannot be saved: {error}") from error
        except (TypeError, ValueError) as error:
            raise ArtefactError(
                f"this covariance cannot be saved: {error}; train it again with plain numbers"
            ) from error
        if not faithful:
            raise ArtefactError(
                "this covariance cannot be saved: it does not read back the same; train it with pretrain"
            )
        return data

    @staticmethod
    def from_bytes(data: bytes) -> Any:
        """Return the covariance saved as `data`; raises `ArtefactError` unless it is exactly as `to_bytes` gives it."""
        content = unpack(data)
        # Contents of no kind are read as a single table's, to say what is missing.
        kind = next((kind for kind in _KINDS if kind in content), "record")
        try:
            cov = _KINDS[kind].from_content(Reader(content, ""))
        except ArtefactError:
            raise
        except MkboError as error:
            raise ArtefactError(f"its content has no meaning: {error!s:.500}") from error
        if pack(cov.to_content()) != data:
            raise ArtefactError("its content is not as this version writes it")
        return cov

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the covariance to a file, atomically: an existing file is replaced as a whole or not at all.

        Returns
        -------
        Path
            The file written.

        Raises
        ------
        ArtefactError
            If the file cannot be written, or the covariance holds something no file can.
        """
        write(Path(path), self.to_bytes())
        return Path(path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Any:
        """Read a covariance written by `save`: a `PretrainedCovariance`, `CombinedCovariance` or `MixtureCovariance`.

        Raises
        ------
        ArtefactError
            If the file is missing, damaged, altered, of another kind, or of a newer version.
        """
        data = read(Path(path))
        try:
            return Saved.from_bytes(data)
        except NewerVersionError as error:
            raise ArtefactError(f"{path}: {error}; upgrade mkbo_plugins") from error
        except ArtefactError as error:
            raise ArtefactError(f"{path}: {error}; take a fresh copy, or save the covariance again") from error


_KINDS: dict[str, type[Saved]] = {}
"""Kinds of covariances by the key that tells a saved one."""
