"""A claim, and the measurements that it is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from framebench.claims.measures import Measure
from framebench.claims.preconditions import ANYWHERE, Preconditions
from framebench.claims.rule import Sign, Target


@dataclass(frozen=True)
class Measurement:
    """One measurement of a claim: its number, and what the claim expects of it."""

    name: str  # such as transformer/torch, or transformer/torch time
    measure: Measure
    target: Target


@dataclass(frozen=True)
class Advice:
    """A recommendation for readers, if measurements show an effect of one sign.

    `measurements` is a text that the names of these measurements contain; empty, it takes the
    deciding ones. Advice without a sign needs no measurement. Its text may use {measured}, the
    median with its interval, and {range}, from the number nearest to no effect to the farthest.
    """

    text: str
    sign: Sign | None = None
    measurements: str = ""


@dataclass(frozen=True)
class Place:
    """Where an article says what a row restates, and what stands there.

    One line of `sources/places.csv`. All of it is in the article as written, but for numbers that
    are computed from the article's.
    """

    article: str  # its letter
    section: str  # its number, or its heading where it has none
    phrase: str  # a few words of the statement, in the article's own language
    numbers: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # of APIs, models and products
    prints: tuple[str, ...] = ()  # pieces of the listing there, in order; empty without a listing

    def __str__(self) -> str:
        return f"article {self.article}, {self.section}"


@dataclass(frozen=True)
class Claim:
    """One row of the ledger of claims.

    A claim about memory and speed is two rows of one id, each with a `part` of its own.
    """

    id: str  # A1 .. of the articles, R1 .. of users' reports
    says: str  # a sentence of our own
    claimed: str  # the claimed effect, short
    metric: str
    transfers_to_gpu: bool  # whether a CPU's result holds on a GPU too
    why: str  # or why not
    part: str = ""  # such as memory and speed, where they are judged apart
    # the first whose measurements exist and have its sign is given
    advice: tuple[Advice, ...] = ()
    deciding: tuple[Measurement, ...] = ()
    informational: tuple[Measurement, ...] = ()  # shown, and not used for the verdict
    needs: Preconditions = ANYWHERE  # without which no measurement decides
    absent: tuple[str, ...] = ()  # names that are claimed to exist
    # a fact from a document, with its source; or why the measurements are what they are
    note: str = ""
    place: Place | None = None  # None for what users report: the note has its link
    # the proof that it is true by definition; a measurement that says otherwise refutes it
    definition: str = ""
    may: bool = False  # it says that something may be: one comparison that shows it is enough
    # what a verdict means for this claim, where its word does not tell; `any`: whatever the verdict
    means: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return `A1`, or `B2 memory`."""
        return f"{self.id} {self.part}".strip()

    @property
    def source(self) -> str:
        """Return the letter of the article, or R."""
        return self.id[0]

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Return the deciding measurements, then the informational ones."""
        return (*self.deciding, *self.informational)
