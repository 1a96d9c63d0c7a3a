"""Each row of an article says what its place says: no number, name or listing of its own."""

from __future__ import annotations

import operator
import re
from dataclasses import replace

import pytest
from _pytest.mark import ParameterSet

from framebench.claims.claim import Claim
from framebench.claims.measure import LISTINGS
from framebench.claims.measures import ProgramMeasure
from framebench.claims.registry import REGISTRY
from framebench.claims.rows import read_places
from framebench.claims.store import SNIPPET

OWN_SIZE = re.compile(r"\([^()]*: ours\)|^.*: ours$")  # a size of this suite's
API = re.compile(r"[A-Za-z]\w*(?:\.\w+)+|[A-Za-z]\w*_\w+")  # torch.cuda.amp, accum_steps
MODEL = re.compile(r"(?<![\w.-])[A-Z][\w-]*(?: \d+)?")  # ResNet-50, RTX 3090, ZeRO
NUMBER = re.compile(r"(?<![\w.])(?<!\w-)\d[\dx.]*(?<!\.)(?![\w-])")  # 40, 0.001, 512x512x128
# of articles' titles, of tongues, and of hardware that every article is about
KNOWN = {"PyTorch", "PyTorch's", "Jittor", "Jittor's", "Julia", "Julia's", "GPU", "CPU", "GB"}
OF_ARTICLES = [claim for claim in REGISTRY.claims if claim.source != "R"]


def list_printed() -> list[ParameterSet]:
    """Return each claim that runs a listing as an article prints it, with the listing's name."""
    printed = []
    for claim in OF_ARTICLES:
        for measurement in claim.measurements:
            measure = measurement.measure
            if "as printed" in measurement.name and isinstance(measure, ProgramMeasure):
                listing = measure.probe.removeprefix(SNIPPET)
                printed.append(pytest.param(claim, listing, id=measurement.name))
    return printed


(B29,) = REGISTRY.select(["B29"])


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


def strip_layout(code: str) -> str:
    """Return code without what a formatter may change."""
    return re.sub(r"\s", "", code).replace('"', "'")


def test_rows_of_articles_and_places_match():
    assert {claim.name for claim in OF_ARTICLES} == set(read_places())
    for claim in OF_ARTICLES:
        assert claim.place.article == claim.source
        assert claim.place.section
        assert claim.place.phrase


@pytest.mark.parametrize("claim", OF_ARTICLES, ids=operator.attrgetter("name"))
def test_numbers_and_names_of_a_row_are_in_its_place(claim):
    assert not find_unsupported(claim)


@pytest.mark.parametrize(
    ("says", "claimed", "unsupported"),
    [
        ("A 3-D U-Net trains on one RTX 3090.", "it fits", ["U-Net"]),
        ("Memory falls by 30 %.", "it fits", ["30"]),
        ("It fits.", "-30 %", ["30"]),
        ("It fits.", "-30 %: ours", []),
        ("It fits with torch.compile.", "it fits", ["torch.compile"]),
        ("It fits with nn.VolumeBatchNorm3d, of 512x512x128 voxels.", "it fits", []),
    ],
)
def test_unsupported_numbers_and_names_are_found(says, claimed, unsupported):
    assert find_unsupported(replace(B29, says=says, claimed=claimed)) == unsupported


@pytest.mark.parametrize(("claim", "listing"), list_printed())
def test_a_listing_as_printed_has_the_articles_calls_in_their_order(claim, listing):
    assert claim.place.prints, f"{claim.name}: the article prints no listing there"
    code = strip_layout((LISTINGS / f"{listing}.py").read_text())
    start = 0
    for piece in claim.place.prints:
        found = code.find(strip_layout(piece), start)
        assert found >= 0, f"{listing}: {piece!r} is missing, or is not in its order"
        start = found + 1


def test_a_claim_about_torch_cuda_is_not_decided_on_a_cpu():
    """It asks for a GPU, or lacks something that no device here has."""
    about_cuda = [
        claim
        for claim in OF_ARTICLES
        if claim.place is not None and "torch.cuda" in " ".join(claim.place.names)
    ]
    assert about_cuda
    for claim in about_cuda:
        assert claim.needs.device == "gpu" or claim.needs.lacking, claim.name
