"""Where in its article each row's statement stands: `sources/places.csv`.

The table has what occurs at each place: a phrase in the article's own language, numbers, names of
APIs and models, and the pieces of a listing. A row may say no number and no name beyond these,
which a test holds it to.
"""

from __future__ import annotations

import csv
from pathlib import Path

from framebench.claims.claim import Place

TABLE = Path(__file__).parent / "sources" / "places.csv"


def read_places() -> dict[str, Place]:
    """Return the place of each row by the row's name."""
    places = {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            places[line["row"]] = Place(
                article=line["article"],
                section=line["section"],
                phrase=line["phrase"],
                numbers=split(line["numbers"], ";"),
                names=split(line["names"], ";"),
                prints=split(line["prints"], "|"),
            )
    return places


def split(text: str, separator: str) -> tuple[str, ...]:
    """Return the parts of a cell; none of an empty one."""
    return tuple(text.split(separator)) if text else ()
