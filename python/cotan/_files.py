"""Files that appear whole or not at all."""

import os
import tempfile
from pathlib import Path


def write(who: str, path: str | bytes | os.PathLike[str] | os.PathLike[bytes], data: bytes) -> None:
    """Write beside the target and rename, so that there is a whole file at any time.

    A link stays one: what it points to is written. Raises `ValueError` when the path is that of
    something else than a regular file, `OSError` with the path when it cannot be written; then an
    older file is as it was.
    """
    target = Path(os.fsdecode(path)).resolve()
    if target.exists() and not target.is_file():
        raise ValueError(f"{who}: {target} is not a regular file")
    try:
        handle, beside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(target)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # A temporary file is its owner's only; this one is to be as any other.
        mask = os.umask(0)
        os.umask(mask)
        Path(beside).chmod(0o666 & ~mask)
        Path(beside).replace(target)
    except BaseException as error:
        Path(beside).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            raise type(error)(error.errno, error.strerror, str(target)) from None
        raise
