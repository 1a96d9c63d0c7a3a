"""What is left of framebench without each of its features: `python without_features.py COPY RESULTS SITE`.

COPY has the package `framebench`, RESULTS is a results folder, SITE a folder for some sites. Prints a line of JSON for each
feature, and one for none, with the keys `without` (its name), `commands`, `strategies`, `tables`, `pages` and `error` (text).
Each is a process of its own that begins with the libraries imported.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import shutil
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

LIBRARIES = (  # modules, by whose import packages are as much in memory as framebench uses of them
    "adjustText", "asv.commands.run", "asv.main", "filelock", "jinja2", "matplotlib.pyplot", "pandas", "psutil",
    "pydantic.types", "rich.progress", "rich.table", "scipy.stats", "seaborn", "submitit", "typer.main", "typer.rich_utils",
)  # fmt: skip
WITH_PAGES = ("claims", "site")  # a whole site, of which tests/features/site has some, takes as long as all the rest
FRAMEWORKS = {"torch", "jax", "flax", "optax", "jittor", "jittor_utils"}


def main(copy: Path, results: Path, sites: Path) -> None:
    gc.disable()  # a sixth of what imports and tables take
    for name in LIBRARIES:
        importlib.import_module(name)
    features = sorted(path.name for path in (copy / "framebench/features").iterdir() if (path / "__init__.py").exists())
    for feature in ("", *features):
        if os.fork() == 0:
            print(json.dumps(tried(copy, feature, results, sites)), flush=True)
            os._exit(0)
        os.wait()


def tried(copy: Path, feature: str, results: Path, sites: Path) -> dict[str, Any]:
    if feature:
        shutil.move(copy / "framebench/features" / feature, copy / feature)
    sys.path.insert(0, str(copy))
    warnings.simplefilter("ignore")
    try:
        site = sites / (feature or "none") if feature in WITH_PAGES else None
        return {"without": feature, "error": "", **left(results, site)}
    except BaseException:
        return {"without": feature, "error": traceback.format_exc()}
    finally:
        if feature:
            shutil.move(copy / feature, copy / "framebench/features" / feature)


def left(results: Path, site: Path | None) -> dict[str, Any]:
    """Every module is imported, and tables and, into `site`, pages are made."""
    import framebench

    for module in pkgutil.walk_packages(framebench.__path__, "framebench.", onerror=lambda name: None):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in FRAMEWORKS:
                raise
    from typer.main import get_command

    from framebench import extensions
    from framebench.analysis.results import Results
    from framebench.cli.__main__ import app
    from framebench.publish.tables import for_documents
    from framebench.suite.registry import OVER_RANKS, STRATEGIES

    found = Results(results)
    build = extensions.one("build_site") if site else None
    return {
        "commands": sorted(get_command(app).commands),  # type: ignore[attr-defined]
        "strategies": sorted({name for _, name in STRATEGIES | OVER_RANKS}),
        "tables": [table.key for table in for_documents(found)],
        "pages": [str(page.relative_to(site)) for page in build(found, site)] if build and site else [],
    }


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
