"""TOML that a person wrote, read with a sentence about what is wrong."""

import tomllib
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from mobfl.errors import InputError
from mobfl.files.bounds import read_text


def read_toml(file: Path | Traversable, what: str) -> dict[str, Any]:
    """The tables of a file, which sentences call `what`; that there is none is left to the caller, who knows others."""
    try:
        return tomllib.loads(read_text(file))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{what} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{what} must be TOML in UTF-8, got other bytes") from None
    except RecursionError:
        raise InputError(f"{what} must be TOML: lists or tables lie too deep within each other") from None
    except ValueError as error:  # TOML's own errors are of this kind
        raise InputError(f"{what} must be TOML: {error}") from None
