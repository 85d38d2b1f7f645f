"""Files that are replaced as a whole or not at all."""

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path`; at no moment, not even of a power cut, is there a part of it under that name.

    Raises
    ------
    OSError
        If the file cannot be written; an existing one is then as it was.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".mkbo.tmp")
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
