"""Files that are replaced as a whole or not at all."""

import errno
import glob
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SUFFIX = ".mkbo.tmp"
STALE = 600.0
"""Seconds without a change after which an unfinished file is one that a killed process has left behind."""


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path`; at no moment, not even of a power cut, is there a part of it under that name.

    A symbolic link stays, and the file it names is replaced; a file that is replaced keeps its permissions. The
    unfinished file beside it, ``.NAME.*.mkbo.tmp``, is left behind only if the process is killed; a later write of the
    same name removes it, or `remove_unfinished`.

    Raises
    ------
    OSError
        If the file cannot be written, or is a folder, a device or a pipe, with `path` as its file name; an existing
        file is then as it was.
    """
    with _naming(path):
        real, permissions = destination(path)
        with _unfinished(real, data) as temporary:
            os.chmod(temporary, 0o666 & ~_umask() if permissions is None else permissions)
            os.replace(temporary, real)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let errors name the file that was to be written."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def _unfinished(real: Path, data: bytes) -> Iterator[str]:
    """Give the name of a file beside another that has its data already; it is gone afterwards."""
    prefix = f".{real.name[:50]}."  # names of files are limited to 255 bytes
    remove_unfinished(real.parent, prefix)
    descriptor, temporary = tempfile.mkstemp(dir=real.parent, prefix=prefix, suffix=SUFFIX)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        Path(temporary).unlink(missing_ok=True)


def remove_unfinished(folder: Path, prefix: str = ".") -> None:
    """Remove unfinished files that killed processes have left behind, of all names or of those that begin so."""
    for left in folder.glob(f"{glob.escape(prefix)}*{SUFFIX}"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > STALE:
                left.unlink()


def destination(path: Path) -> tuple[Path, int | None]:
    """Return the file that writing to `path` replaces, links followed, and its permissions, None if it is not there.

    Raises
    ------
    OSError
        If it is a folder, a device or a pipe, links lead in a circle, or its name is too long.
    """
    real = Path(os.path.realpath(path))
    try:
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        return real, None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file", str(path))
    return real, stat.S_IMODE(mode) & 0o777


def read_start(path: Path, most: int) -> bytes:
    """Return a file's first `most` bytes, or all if it has fewer; raises `OSError` where it cannot be read."""
    with path.open("rb") as file:
        return file.read(most)


def write_new(path: Path, data: bytes) -> None:
    """Write `data` to a file that does not exist yet; a killed process leaves no part of it, as `write_atomically`.

    Raises
    ------
    FileExistsError
        If it does.
    OSError
        If it cannot be written.
    """
    with _naming(path), _unfinished(path, data) as temporary:
        os.chmod(temporary, 0o666 & ~_umask())
        try:
            os.link(temporary, path)
        except OSError:  # of a file system without links to files, among others
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
            os.replace(temporary, path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
