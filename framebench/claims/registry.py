"""All claims, and the search for those that somebody names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from framebench.claims.claim import Claim
from framebench.claims.rows import read_claims
from framebench.claims.search import Index

ID = re.compile(r"[A-DR]\d{1,2}(?!\w)")  # and no A100


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

    @cached_property
    def index(self) -> Index:
        """The words of all claims."""
        return Index(self.claims)

    def chosen(self, texts: Iterable[str]) -> tuple[Claim, ...]:
        """Return the claims with these ids, names, such as `B1 memory`, or words.

        An id has all of its parts; upper and lower case are the same. What words find comes best
        first. Without any text these are all claims. Raises UnknownClaim.
        """
        queries = self.join_parts(texts)
        if not queries:
            return self.claims
        found: dict[str, Claim] = {}  # in the order of the queries, each once
        for query in queries:
            matching = self.find(query)
            if not matching:
                raise UnknownClaim(self.describe_unknown(query))
            found |= {claim.name: claim for claim in matching}
        if all(map(ID.match, queries)):
            return tuple(claim for claim in self.claims if claim.name in found)
        return tuple(found.values())

    def find(self, query: str) -> list[Claim]:
        """Return the claims with this id or name, or those that words find, the best first.

        `query` is upper case, as `join_parts` makes it.
        """
        if ID.match(query):
            return [claim for claim in self.claims if query in names_of(claim)]
        return self.index.rank(query)

    def list_unknown_words(self, texts: Iterable[str]) -> list[str]:
        """Return the words that no claim has, of queries that find claims by others."""
        unknown = []
        for query in self.join_parts(texts):
            if not ID.match(query):
                unknown += self.index.find_unknown(query)
        return unknown

    def join_parts(self, texts: Iterable[str]) -> list[str]:
        """Return queries as they are typed, with quotes or without.

        A part that follows its id belongs to it; words without an id are one query.
        """
        names = self.ids_and_names
        queries: list[str] = []
        for text in texts:
            query = " ".join(text.replace("-", " ").upper().split())
            if queries and query not in names and f"{queries[-1]} {query}" in names:
                queries[-1] += f" {query}"
            elif query:
                queries.append(query)
        if queries and not any(map(ID.match, queries)):
            return [" ".join(queries)]
        return queries

    @cached_property
    def ids_and_names(self) -> set[str]:
        """The ids of all claims, and their names with the part."""
        return set[str]().union(*map(names_of, self.claims))

    def describe_unknown(self, query: str) -> str:
        """Return what the claims are, for a query that finds none."""
        first, _, part = query.partition(" ")
        parts = [claim.part for claim in self.claims if claim.id == first and claim.part]
        if parts:
            return f"claim {first} has no part {part.lower()!r}; its parts: {', '.join(parts)}"
        if first in self.ids:
            return f"claim {first} has no parts; type framebench claims {first}"
        ranges = ", ".join(self.list_ranges())
        return (
            f"no claim {query}, and none with these words; claims: {ranges}; "
            "framebench claims lists them all"
        )

    def list_ranges(self) -> list[str]:
        """Return the ids of each source from the first to the last: `A1 to A16`."""
        ends: dict[str, list[str]] = {}
        for id in self.ids:
            ends.setdefault(id[0], []).append(id)
        return [f"{several[0]} to {several[-1]}" for several in ends.values()]


def names_of(claim: Claim) -> set[str]:
    """Return a claim's id and its name with the part."""
    return {claim.id, claim.name.upper()}


REGISTRY = Registry(read_claims())
