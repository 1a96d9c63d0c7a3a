"""Write the scripts that pages share, from the installed packages.

The site can be opened from files, and browsers load no modules from files. So a module becomes a
script that sets one global variable.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

EXPORTS = re.compile(r"export\s*\{([^}]*)\};?")
DEFAULT = re.compile(r"(\w+) as default\b")
TABLES, CHARTS = "datatables", "vega"


class UnknownBundle(RuntimeError):
    """A package has its script in an unknown form; the message says which package."""


def write_assets(folder: Path) -> None:
    """Write DataTables with its style sheet, and Vega-Embed with Vega and Vega-Lite."""
    import vl_convert

    folder.mkdir(parents=True, exist_ok=True)
    bundle = resources.files("itables") / "html"
    module = (bundle / "dt_bundle.js").read_text(encoding="utf-8")
    (folder / f"{TABLES}.js").write_text(convert_module(module, "DataTable"), encoding="utf-8")
    style = (bundle / "dt_bundle.css").read_text(encoding="utf-8")
    (folder / f"{TABLES}.css").write_text(style, encoding="utf-8")
    snippet = "window.vegaEmbed = vegaEmbed;"
    script = vl_convert.javascript_bundle(snippet)
    (folder / f"{CHARTS}.js").write_text(f"(() => {{\n{script}\n}})();\n", encoding="utf-8")


def convert_module(module: str, name: str) -> str:
    """Return a module as a script that makes its default export the global variable `name`.

    Raises UnknownBundle.
    """
    exports = EXPORTS.search(module)
    default = DEFAULT.search(exports[1]) if exports else None
    if exports is None or default is None:
        raise UnknownBundle(
            "the bundle of DataTables in itables has no default export; pin the itables of "
            "requirements/site.txt"
        )
    script = module[: exports.start()] + f"window.{name} = {default[1]};" + module[exports.end() :]
    return f"(() => {{\n{script}\n}})();\n"
