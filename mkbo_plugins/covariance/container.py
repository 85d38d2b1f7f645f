"""The container of saved covariances: canonical JSON with a schema version and a checksum.

A file holds exactly the bytes that `pack` gives for its content: keys sorted, no optional white space, floats in their
shortest form that reads back to the same value. Reading compares bytes, so any change is noticed, and builds plain
values only, so it never runs code.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from mkbo_plugins.covariance.limits import MOST_BYTES
from mkbo_plugins.errors import ArtefactError
from mkbo_plugins.files import read_start, write_atomically

FORMAT = "mkbo-pretrained-covariance"
SCHEMA_VERSION = 1


class NewerVersionError(ArtefactError):
    """A saved covariance is of a newer schema version than this program reads."""


def pack(content: dict[str, Any]) -> bytes:
    """Return the bytes of a file with this content.

    Raises
    ------
    TypeError, ValueError
        If the content holds something JSON cannot.
    """
    document = {
        "checksum": digest(content),
        "content": content,
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
    }
    return _canonical(document) + b"\n"


def unpack(data: bytes) -> dict[str, Any]:
    """Return the content of a file's bytes; raises `ArtefactError` unless they are as `pack` gives them."""
    if len(data) > MOST_BYTES:
        raise ArtefactError(f"larger than {MOST_BYTES // 2**20} MiB, which no saved covariance is")
    try:
        document = json.loads(data.decode("ascii"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ArtefactError("not a saved covariance, or one cut short or damaged (no complete JSON text)") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ArtefactError(f"not a saved covariance: its 'format' is not {FORMAT!r}")
    version = document.get("schema_version")
    if isinstance(version, bool) or not isinstance(version, int):
        raise ArtefactError(f"'schema_version' must be a whole number, got {version!r}; the file was altered")
    if version > SCHEMA_VERSION:
        raise NewerVersionError(
            f"written in schema version {version}, newer than {SCHEMA_VERSION}, which this program reads"
        )
    content = document.get("content")
    try:
        intact = isinstance(content, dict) and pack(content) == data
    except (ValueError, RecursionError):
        intact = False
    if not isinstance(content, dict) or not intact:
        raise ArtefactError("altered since it was saved (checksum or layout differ)")
    _check_texts(content, data)
    return content


def _check_texts(content: dict[str, Any], data: bytes) -> None:
    """Raise an `ArtefactError` where a text is no Unicode, which could neither be shown nor written to a table."""
    if b"\\ud" not in data:
        return
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        near = error.object[max(error.start - 20, 0) : error.end]
        raise ArtefactError(f"a text holds half a character, {near!r}; rename what is called so") from error


def digest(content: dict[str, Any]) -> str:
    """Return the SHA-256 of a content's canonical form, as hexadecimal digits."""
    return hashlib.sha256(_canonical(content)).hexdigest()


def write(path: Path, data: bytes) -> None:
    """Write a file's bytes, replacing an existing file as a whole or not at all; raises `ArtefactError` where not."""
    try:
        write_atomically(path, data)
    except (OSError, ValueError) as error:
        raise ArtefactError(f"cannot write {path}: {_reason(error)}; name a file in an existing folder") from error


def check_replaceable(path: Path) -> None:
    """Raise an `ArtefactError` if there is a file that is neither empty nor a saved covariance."""
    if not path.exists() or path.stat().st_size == 0:
        return
    try:
        unpack(read(path))
    except NewerVersionError:
        return
    except ArtefactError as error:
        raise ArtefactError(
            f"cannot write {path}: it exists, and is no saved covariance to be replaced ({error}); name another file, "
            "or delete it"
        ) from error


def read(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return a file's bytes, `most` and one of a larger file; raises `ArtefactError` where it cannot be read."""
    try:
        return read_start(path, most + 1)
    except FileNotFoundError:
        raise ArtefactError(f"{path} does not exist; check the path, or save a covariance there first") from None
    except (OSError, ValueError) as error:
        raise ArtefactError(f"cannot read {path}: {_reason(error)}; check the path") from error


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _reason(error: OSError | ValueError) -> Any:
    return error.strerror if isinstance(error, OSError) else error
