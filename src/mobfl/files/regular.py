"""Files that somebody else may have put there: opened only if they are files."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(file: Path) -> BinaryIO:
    """Raises an OSError for anything else: a FIFO would be waited for, a device may never end."""
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "something that is not a file")
    return os.fdopen(descriptor, "rb")


def check_regular(file: Path) -> None:
    """For libraries that open it by name."""
    open_regular(file).close()
