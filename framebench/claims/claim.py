"""What the ledger is made of: a claim, its arms, and the cases an arm compares."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from framebench.claims.measures import Measure
from framebench.claims.needs import ANYWHERE, Needs
from framebench.claims.rule import Sign, Target
from framebench.claims.samples import Quantity

SMALL = {
    "A", "AN", "AND", "ARE", "AS", "AT", "BE", "BY", "DO", "DOES", "FOR", "FROM", "HOW", "IN", "IS", "IT", "MORE", "NOT", "OF",
    "ON", "ONE", "OR", "THAN", "THAT", "THE", "TO", "TRUE", "UNDER", "WITH", "MAKE", "MAKES", "%",
}  # words that say nothing of a claim  # fmt: skip
TIME, OF_TIME = "TIME", {"SLOW", "SLOWER", "FASTER", "SPEED", "SLOWDOWN"}
FEW = 12  # claims with a word: one that more of them have, such as memory, finds none


@dataclass(frozen=True)
class Arm:
    """One comparison. What `Claim.arms` holds decides; what `Claim.evidence` holds is shown beside it."""

    name: str  # such as transformer/torch, or transformer/torch time
    measure: Measure
    target: Target


@dataclass(frozen=True)
class Advice:
    """What to do, and what it rests on: all arms whose name has `arms` in it (of no name the deciding ones) have this `sign`.
    Without a sign it rests on no number. Of its arms the text may use {measured}, {range}, the {least} and the {most}
    departure from no effect, and their names {least_arm} and {most_arm}."""

    text: str
    sign: Sign | None = None
    arms: str = ""


@dataclass(frozen=True)
class Claim:
    """One row. A claim about memory and speed is two rows of one id, each with a `part` of its own. `says` is a sentence of our
    own. Of `advice` the first is given whose arms are there and agree with it."""

    id: str  # A1 .. of the articles, R1 .. of users' reports
    part: str = field(default="", kw_only=True)  # such as memory and speed, where they are judged apart
    says: str
    claimed: str  # the claimed effect, short
    metric: str
    transfers_to_gpu: bool  # whether a CPU's result holds on a GPU too
    why: str  # or why not
    advice: tuple[Advice, ...] = ()
    arms: tuple[Arm, ...] = ()
    evidence: tuple[Arm, ...] = ()
    needs: Needs = ANYWHERE  # without which no arm decides
    absent: tuple[str, ...] = ()  # names that are claimed to exist
    reaches: Quantity | None = None  # what the change must reach: of a case with none of it no arm decides
    note: str = ""  # a fact from a document, with its source; or why the arms are what they are
    definition: str = ""  # the proof that it is true by definition; an arm that says otherwise refutes it

    @property
    def name(self) -> str:
        """`A1`, or `B2 memory`."""
        return f"{self.id} {self.part}".strip()

    @property
    def source(self) -> Literal["A", "B", "C", "D", "R"]:
        return self.id[0]  # type: ignore[return-value]

    @property
    def every_arm(self) -> tuple[Arm, ...]:
        return (*self.arms, *self.evidence)


@dataclass(frozen=True)
class Registry:
    """The claims in the order of their sources."""

    claims: tuple[Claim, ...]
    ids: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", tuple(dict.fromkeys(c.id for c in self.claims)))
        if len({c.name for c in self.claims}) != len(self.claims):
            raise ValueError("a claim is there twice")

    def chosen(self, ids: Iterable[str]) -> tuple[Claim, ...]:
        """Those with these ids, all parts of each, of these names, such as `B1 memory`, or with these words; in any case.
        Raises UnknownClaim."""
        wanted = self._joined(ids)
        found = {text: self._meant(text) or self._nearest(text) for text in wanted}
        if unknown := next((text for text in wanted if not found[text]), None):
            raise UnknownClaim(self._unknown(unknown))
        return tuple(c for c in self.claims if not wanted or any(c in some for some in found.values()))

    def inexact(self, ids: Iterable[str]) -> list[str]:
        """What no claim has as it was typed, and some share words with."""
        return [text for text in self._joined(ids) if not self._meant(text) and self._nearest(text)]

    def _meant(self, text: str) -> list[Claim]:
        return [c for c in self.claims if _meant(c, text)]

    def _nearest(self, text: str) -> list[Claim]:
        """Those that share most words with a sentence, numbers aside. A single word must be one that few claims have."""
        if re.match(r"[A-Z]\d", text):
            return []
        wanted = {word for word in _terms(text) if not word[0].isdigit()}
        shared = {c.name: wanted & self._terms_of(c) for c in self.claims}
        if (most := max(map(len, shared.values()))) > 1:
            return [c for c in self.claims if len(shared[c.name]) == most]
        named = Counter(word for words in shared.values() for word in words)
        return [c for c in self.claims if any(named[word] <= FEW for word in shared[c.name])]

    @staticmethod
    def _terms_of(claim: Claim) -> set[str]:
        """Of what it says; and that times stand beside it, if they do."""
        timed = any(TIME in _terms(arm.name) for arm in (*claim.arms, *claim.evidence))
        return _terms(f"{claim.says} {claim.metric}") | ({TIME} if timed else set())

    def _joined(self, ids: Iterable[str]) -> list[str]:
        """As they are typed, with quotes or without: a part that follows its id belongs to it."""
        every = {name for c in self.claims for name in _names(c)}
        wanted: list[str] = []
        for text in (" ".join(i.replace("-", " ").upper().split()) for i in ids):
            if wanted and text not in every and f"{wanted[-1]} {text}" in every:
                wanted[-1] += f" {text}"
            else:
                wanted.append(text)
        return wanted

    def _unknown(self, text: str) -> str:
        first, _, part = text.partition(" ")
        if parts := [c.part for c in self.claims if c.id == first and c.part]:
            return f"claim {first} has no part {part.lower()!r}; its parts: {', '.join(parts)}"
        if first in self.ids:
            return f"claim {first} has no parts; type framebench claims {first}"
        sources = [[i for i in self.ids if i[0] == source] for source in dict.fromkeys(i[0] for i in self.ids)]
        there = ", ".join(" to ".join(dict.fromkeys((ids[0], ids[-1]))) for ids in sources)
        return f"no claim {text}, and none with these words; claims: {there}; framebench claims lists them all"


def _names(claim: Claim) -> set[str]:
    return {claim.id, claim.name.upper()}


def _words(text: str) -> str:
    """For a search: `40%` is `40 %`."""
    return re.sub(r"(?<=\d)%", " %", text.replace("-", " ").upper())


def _terms(text: str) -> set[str]:
    """What a search goes by: whoever asks what is slower asks for a time."""
    return {TIME if word in OF_TIME else word for word in _words(text).split()} - SMALL


def _meant(claim: Claim, text: str) -> bool:
    """What begins like an id is no word."""
    wanted = rf"\b{re.escape(_words(text))}"
    words = _words(f"{claim.says} {claim.metric}")
    return text in _names(claim) or (not re.match(r"[A-Z]\d", text) and re.search(wanted, words) is not None)


class UnknownClaim(ValueError):
    """An id that no claim has; the message lists those there are."""
