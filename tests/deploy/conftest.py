import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where nginx's own user can go, which pytest's folders do not allow."""
    with tempfile.TemporaryDirectory(prefix="mobfl-test-") as made:
        Path(made).chmod(0o755)
        yield Path(made)
