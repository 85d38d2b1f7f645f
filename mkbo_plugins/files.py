"""Files that are replaced as a whole or not at all."""

import glob
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

SUFFIX = ".mkbo.tmp"
STALE = 600.0
"""Seconds without a change after which an unfinished file is one that a killed process has left behind."""


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path`; at no moment, not even of a power cut, is there a part of it under that name.

    The unfinished file beside it, ``.NAME.*.mkbo.tmp``, is left behind only if the process is killed; a later write
    of the same name removes it.

    Raises
    ------
    OSError
        If the file cannot be written; an existing one is then as it was.
    """
    prefix = f".{path.name[:50]}."  # names of files are limited to 255 bytes
    for left in path.parent.glob(f"{glob.escape(prefix)}*{SUFFIX}"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > STALE:
                left.unlink()
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=SUFFIX)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_new(path: Path, data: bytes) -> None:
    """Write `data` to a file that does not exist yet.

    Raises
    ------
    FileExistsError
        If it does.
    OSError
        If it cannot be written.
    """
    with path.open("xb") as file:
        try:
            file.write(data)
        except BaseException:
            path.unlink()
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
