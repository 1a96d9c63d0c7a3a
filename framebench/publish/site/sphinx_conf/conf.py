"""Configure Sphinx for the site. `framebench/publish/site/build.py` writes what it reads."""

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

project = "framebench"
author = "the framebench authors"
html_title = "framebench"
html_copy_source = False
html_show_sourcelink = False

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["html", "assets"]
nb_execution_mode = "off"
myst_heading_anchors = 4
# text of records is shown unchanged: no quotes are made curly, no dashes long
smartquotes = False
# tables of documents have headings of the third level wherever they stand
suppress_warnings = ["myst.header", "config.cache"]
autodoc_typehints = "signature"

html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "logo": {"text": "framebench"},
    "header_links_before_dropdown": 8,
    "navigation_depth": 2,
    "collapse_navigation": True,
    "show_nav_level": 1,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
html_static_path = [str(Path(__file__).parents[1] / "static")]
html_css_files = ["site.css"]


def add_assets(app: Sphinx, config: object) -> None:
    """Take the scripts and figures that the build wrote among the static files."""
    app.config.html_static_path.append(str(Path(app.srcdir) / "assets"))


def add_scripts(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Load the scripts that a page needs, and no others."""
    body = context.get("body", "")
    scripts = []
    if 'class="vega"' in body:
        scripts.append("vega.js")
    if "sortable" in body:
        app.add_css_file("datatables.css")
        scripts.append("datatables.js")
    if scripts:
        scripts.append("start.js")
    if pagename == "index":
        scripts += ["data.js", "form.js"]
    for script in scripts:
        app.add_js_file(script, defer="defer")


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("config-inited", add_assets)
    app.connect("html-page-context", add_scripts)
