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


def write_assets(folder: Path) -> None:
    """Write DataTables with its style sheet, and Vega-Embed with Vega and Vega-Lite."""
    import vl_convert

    folder.mkdir(parents=True, exist_ok=True)
    bundle = resources.files("itables") / "html"
    module = (bundle / "dt_bundle.js").read_text(encoding="utf-8")
    (folder / f"{TABLES}.js").write_text(convert_module(module), encoding="utf-8")
    style = (bundle / "dt_bundle.css").read_text(encoding="utf-8")
    (folder / f"{TABLES}.css").write_text(style, encoding="utf-8")
    snippet = "window.vegaEmbed = vegaEmbed;"
    script = vl_convert.javascript_bundle(snippet)
    (folder / f"{CHARTS}.js").write_text(f"(() => {{\n{script}\n}})();\n", encoding="utf-8")


def convert_module(module: str) -> str:
    """Return a module as a script that makes its default export the global variable `DataTable`.

    The module is that of the itables that requirements/site.txt pins.
    """
    exports = EXPORTS.search(module)
    assert exports, "the bundle of itables has no exports"
    default = DEFAULT.search(exports[1])
    assert default, "the bundle of itables has no default export"
    assigned = f"window.DataTable = {default[1]};"
    return f"(() => {{\n{module[: exports.start()]}{assigned}{module[exports.end() :]}\n}})();\n"
