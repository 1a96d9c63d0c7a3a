"""Build the site: records, predictions and guides as pages that need neither network nor server.

Python writes the pages as Markdown and HTML into a temporary folder, and Sphinx makes the site of
them. Other modules need only `build`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from framebench.analysis.results import Results, suggest_first_run
from framebench.engine import children
from framebench.publish.site.machine import Machine, list_machines
from framebench.publish.site.policy import add_policies
from framebench.publish.site.source import Page, SourceFolder
from framebench.publish.site.target import Unbuildable, check_folder, claim_folder
from framebench.records.record import Record

CONFIGURATION = Path(__file__).parent / "sphinx_conf"
PACKAGES = ("sphinx", "myst_nb", "pydata_sphinx_theme", "itables", "vl_convert")
LIMIT_S = 1800
SHOWN_WARNINGS = 20
LEFTOVERS = ("_sources", "_static/webpack-macros.html", ".buildinfo")


def build(
    results: Results,
    target: Path,
    shown: list[Record] | None = None,
    *,
    guides: bool = True,
) -> list[Path]:
    """Write the site of these results, or of the records among them that are to be shown.

    Return its pages. A site that is already in the folder is replaced. Without `guides` it has no
    documentation, reference and notebooks. Raises Unbuildable if there are no records, if the
    folder has something else in it, or if Sphinx is not installed.
    """
    records = results.records if shown is None else shown
    if not records:
        raise Unbuildable(
            f"no such records under {results.root}; {suggest_first_run(results.root)}"
        )
    check_folder(target)
    require_packages()
    machines = list_machines(records, results)
    with tempfile.TemporaryDirectory() as folder:
        source = SourceFolder(Path(folder) / "source")
        site = Path(folder) / "site"
        write_pages(source, machines, results, guides)
        run_sphinx(source.folder, site)
        remove_leftovers(site)
        add_policies(site)
        claim_folder(target)
        shutil.copytree(site, target, dirs_exist_ok=True)
    return sorted(target.rglob("*.html"))


def require_packages() -> None:
    """Raise Unbuildable if a package of requirements/site.txt is missing, and say how to get it."""
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        raise Unbuildable(
            f"the site is built with {', '.join(missing)}, not installed here; in a checkout "
            "`make site` installs what it needs, elsewhere: pip install 'framebench[site]'"
        )


def write_pages(
    source: SourceFolder, machines: list[Machine], results: Results, with_guides: bool
) -> None:
    """Write everything that Sphinx reads."""
    # matplotlib takes seconds to import
    from framebench.analysis import figures
    from framebench.publish.figures import list_figures
    from framebench.publish.site import (
        claim_pages,
        front,
        guides,
        machine_pages,
        predicted_pages,
        reference,
    )
    from framebench.publish.site.assets import write_assets

    with figures.start_drawing_pool() as pool:
        # the pool draws all figures while the pages are written here
        pictures = []
        for machine in machines:
            pictures.append(figures.render_all(pool, list_figures(machine.shown, results)))
        measured = []
        for machine, machine_pictures in zip(machines, pictures):
            measured.append(machine_pages.write_machine(source, machine, machine_pictures))
    page = Page(source, "measured", "Measured")
    page.add_markdown(
        "What each machine measured. `framebench.load()` has the same as a DataFrame."
    )
    page.add_contents(measured)
    menu = [
        page.save(),
        *predicted_pages.write_predictions(source, results.root),
        claim_pages.write_claims(source, machines),
    ]
    if with_guides:
        menu = [
            *guides.write_guides(source),
            reference.write_reference(source),
            *menu,
            *guides.write_notebooks(source),
        ]
    front.write_front(source, machines, results, menu)
    write_assets(source.folder / "assets")


def run_sphinx(source: Path, site: Path) -> None:
    """Make the site of the pages; a warning is an error. Raises Unbuildable with the warnings."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-c", str(CONFIGURATION), "-q", "-E"]
    command += ["-W", "--keep-going", "-j", "auto", "-d", str(site.parent / "doctrees")]
    try:
        ended = children.run_program([*command, str(source), str(site)], os.environ, LIMIT_S)
    except TimeoutError as error:
        raise Unbuildable(f"Sphinx did not end within {LIMIT_S} s") from error
    if ended.code != 0:
        lines = ended.stderr.strip().splitlines() or ["no reason given"]
        warnings = "\n".join(lines[:SHOWN_WARNINGS])
        raise Unbuildable(f"Sphinx has {len(lines)} lines of warnings:\n{warnings}")


def remove_leftovers(site: Path) -> None:
    """Remove files that Sphinx and the theme leave among the pages, and that no page needs."""
    for name in LEFTOVERS:
        path = site / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
