"""All claims, and the search for those that somebody names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from framebench.claims.claim import Claim
from framebench.claims.rows import read_claims

# words that say nothing of a claim
SMALL_WORDS = set(
    [
        "A",
        "AN",
        "AND",
        "ARE",
        "AS",
        "AT",
        "BE",
        "BY",
        "DO",
        "DOES",
        "FOR",
        "FROM",
        "HOW",
        "IN",
        "IS",
        "IT",
        "MORE",
        "NOT",
        "OF",
        "ON",
        "ONE",
        "OR",
        "THAN",
        "THAT",
        "THE",
        "TO",
        "TRUE",
        "UNDER",
        "WITH",
        "MAKE",
        "MAKES",
        "%",
    ]
)
# who asks what is slower asks for a time
TIME_WORDS = {"SLOW", "SLOWER", "FASTER", "SPEED", "SLOWDOWN"}
FEW = 12  # claims with a word: one that more of them have, such as memory, finds none
ID = re.compile(r"[A-Z]\d")


class UnknownClaim(ValueError):
    """An id that no claim has; the message lists those there are."""


@dataclass(frozen=True)
class Registry:
    """The claims in the order of their sources."""

    claims: tuple[Claim, ...]
    ids: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", tuple(dict.fromkeys(claim.id for claim in self.claims)))
        if len({claim.name for claim in self.claims}) != len(self.claims):
            raise ValueError("a claim is there twice")

    def chosen(self, texts: Iterable[str]) -> tuple[Claim, ...]:
        """Return the claims with these ids, names, such as `B1 memory`, or words.

        An id has all of its parts; upper and lower case are the same. Without any text these are
        all claims. Raises UnknownClaim.
        """
        queries = self.join_parts(texts)
        if not queries:
            return self.claims
        found: list[Claim] = []
        for query in queries:
            matching = self.find_exactly(query) or self.find_nearest(query)
            if not matching:
                raise UnknownClaim(self.describe_unknown(query))
            found += matching
        return tuple(claim for claim in self.claims if claim in found)

    def inexact(self, texts: Iterable[str]) -> list[str]:
        """Return the queries that no claim has as they were typed, and some share words with."""
        queries = self.join_parts(texts)
        return [
            query for query in queries if not self.find_exactly(query) and self.find_nearest(query)
        ]

    def find_exactly(self, query: str) -> list[Claim]:
        """Return the claims with this id or name, or with these words in this order."""
        if ID.match(query):
            return [claim for claim in self.claims if query in names_of(claim)]
        pattern = re.compile(rf"\b{re.escape(normalize(query))}")
        return [claim for claim in self.claims if pattern.search(words_of(claim))]

    def find_nearest(self, query: str) -> list[Claim]:
        """Return the claims that share most words with a sentence, numbers aside.

        A single word must be one that few claims have.
        """
        if ID.match(query):
            return []
        wanted = {word for word in find_terms(query) if not word[0].isdigit()}
        shared = {claim.name: wanted & terms_of(claim) for claim in self.claims}
        most = max(len(words) for words in shared.values())
        if most > 1:
            return [claim for claim in self.claims if len(shared[claim.name]) == most]
        counts = Counter(word for words in shared.values() for word in words)
        rare = {word for word, count in counts.items() if count <= FEW}
        return [claim for claim in self.claims if shared[claim.name] & rare]

    def join_parts(self, texts: Iterable[str]) -> list[str]:
        """Return queries as they are typed, with quotes or without.

        A part that follows its id belongs to it.
        """
        names = {name for claim in self.claims for name in names_of(claim)}
        queries: list[str] = []
        for text in texts:
            query = " ".join(text.replace("-", " ").upper().split())
            if queries and query not in names and f"{queries[-1]} {query}" in names:
                queries[-1] += f" {query}"
            else:
                queries.append(query)
        return queries

    def describe_unknown(self, query: str) -> str:
        """Return what the claims are, for a query that finds none."""
        first, _, part = query.partition(" ")
        parts = [claim.part for claim in self.claims if claim.id == first and claim.part]
        if parts:
            return f"claim {first} has no part {part.lower()!r}; its parts: {', '.join(parts)}"
        if first in self.ids:
            return f"claim {first} has no parts; type framebench claims {first}"
        ranges = []
        for source in dict.fromkeys(id[0] for id in self.ids):
            ids = [id for id in self.ids if id[0] == source]
            ranges.append(f"{ids[0]} to {ids[-1]}" if len(ids) > 1 else ids[0])
        return (
            f"no claim {query}, and none with these words; claims: {', '.join(ranges)}; "
            "framebench claims lists them all"
        )


def names_of(claim: Claim) -> set[str]:
    """Return a claim's id and its name with the part."""
    return {claim.id, claim.name.upper()}


def normalize(text: str) -> str:
    """Return a text for a search: `40%` is `40 %`."""
    return re.sub(r"(?<=\d)%", " %", text.replace("-", " ").upper())


def words_of(claim: Claim) -> str:
    """Return the text of a claim that is searched."""
    return normalize(f"{claim.says} {claim.metric}")


def find_terms(text: str) -> set[str]:
    """Return the words that a search goes by."""
    words = set(normalize(text).split())
    if words & TIME_WORDS:
        words = words - TIME_WORDS | {"TIME"}
    return words - SMALL_WORDS


def terms_of(claim: Claim) -> set[str]:
    """Return the words of a claim, and that it shows times, if it does."""
    terms = find_terms(words_of(claim))
    is_timed = any("TIME" in find_terms(measurement.name) for measurement in claim.measurements)
    return terms | {"TIME"} if is_timed else terms


REGISTRY = Registry(read_claims())
