"""Where in its article each row's statement stands: `sources/places.csv`, and a check against it.

The table has what occurs at each place: a phrase in the article's own language, numbers, names of
APIs and models, and the pieces of a listing. A row may say no number and no name beyond these.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from framebench.claims.claim import Claim, Place

TABLE = Path(__file__).parent / "sources" / "places.csv"
OWN_SIZE = re.compile(r"\([^()]*: ours\)|^.*: ours$")  # a size of this suite's
API = re.compile(r"[A-Za-z]\w*(?:\.\w+)+|[A-Za-z]\w*_\w+")  # torch.cuda.amp, accum_steps
MODEL = re.compile(r"(?<![\w.-])[A-Z][\w-]*(?: \d+)?")  # ResNet-50, RTX 3090, ZeRO
NUMBER = re.compile(r"(?<![\w.])(?<!\w-)\d[\dx.]*(?<!\.)(?![\w-])")  # 40, 0.001, 512x512x128
# of articles' titles, of tongues, and of hardware that every article is about
KNOWN = {"PyTorch", "PyTorch's", "Jittor", "Jittor's", "Julia", "Julia's", "GPU", "CPU", "GB"}


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


def find_unsupported(claim: Claim) -> list[str]:
    """Return the numbers and names in a claim's statement that its place has not.

    Sizes that are marked as this suite's own are left out.
    """
    place = claim.place
    if place is None:
        return []
    named = " ".join((*place.names, *place.prints, place.phrase))
    claimed = OWN_SIZE.sub("", claim.claimed)
    unsupported = [name for name in API.findall(claim.says) if name not in named]
    for text in (claim.says, claimed):
        plain = API.sub("", text)
        for number in NUMBER.findall(MODEL.sub("", plain)):
            if number not in place.numbers:
                unsupported.append(number)
    # a sentence's first word has a capital whatever it is
    for name in MODEL.findall(API.sub("", claim.says))[1:]:
        if name not in KNOWN and name.removesuffix("'s") not in named:
            unsupported.append(name)
    return unsupported
