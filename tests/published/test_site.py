"""The site of the published records is small enough to be served, and its links lead somewhere."""

import pytest

from framebench.analysis.results import Results
from framebench.publish.site.build import build
from tests.accessibility import list_dead_links
from tests.pages import needs_sphinx
from tests.processes import ROOT

# bytes of one page, of any other file, and of the whole site
LARGEST_PAGE, LARGEST_FILE, WHOLE = 2_000_000, 4_000_000, 120_000_000


@needs_sphinx
@pytest.mark.all_cases
@pytest.mark.slow
def test_the_published_site_is_small_without_dead_links(tmp_path):
    site = tmp_path / "site"
    build(Results(ROOT / "results"), site)
    assert not list_dead_links(site)
    whole = 0
    for path in site.rglob("*"):
        if path.is_file():
            size = path.stat().st_size
            assert size <= (LARGEST_PAGE if path.suffix == ".html" else LARGEST_FILE), path
            whole += size
    assert 0 < whole <= WHOLE
