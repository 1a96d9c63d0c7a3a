"""Pictures that were drawn before, by what they were drawn from: any change of a record, of code or of a library draws anew."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from framebench import extensions
from framebench.records.provenance import PACKAGE

DRAWING = ("matplotlib", "seaborn", "pandas", "numpy", "adjustText")
SOURCE = ("analysis", "models", "records", "suite")
REACHED = {"questions", "figures", "strategies", "workload"}  # what features add that draws, or that names what is drawn
UNUSED_S = 30 * 86400  # after so long a picture that nobody asked for is removed


def once(make: Callable[..., Sequence[str] | None], *arguments: Any) -> Sequence[str] | None:
    """The texts that `make` returns for these arguments, which can be pickled; read from the cache if they were made before."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"  # beside the environments
    folder = Path(os.environ.get("FRAMEBENCH_CACHE") or Path(base) / "framebench") / "pictures"
    file = folder / f"{hashlib.sha256(_code() + pickle.dumps(arguments)).hexdigest()}.json"
    with contextlib.suppress(OSError, ValueError):
        found: list[str] | None = json.loads(file.read_text())
        os.utime(file)
        return found
    made = make(*arguments)
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time alone
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "w") as opened:
            opened.write(json.dumps(made))
        os.replace(temporary, file)
        for other in folder.iterdir():
            if other.stat().st_mtime < time.time() - UNUSED_S:
                other.unlink(missing_ok=True)
    return made


@cache
def _code() -> bytes:
    """A fingerprint of the source that draws, and of the libraries that do."""
    libraries = repr([version(name) for name in DRAWING]).encode()
    return hashlib.sha256(b"".join(file.read_bytes() for file in _source()) + libraries).digest()


def _source() -> list[Path]:
    """The modules that a figure's function can reach; what measures is told by the rows. No feature reaches another."""
    drawing = [extensions.FOLDER / name for name, feature in extensions.features().items() if REACHED & set(feature.adds)]
    return sorted(file for folder in [*(PACKAGE / name for name in SOURCE), *drawing] for file in folder.rglob("*.py"))
