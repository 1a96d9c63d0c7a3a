"""All claims, and the search for those that somebody names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from itertools import groupby
from operator import attrgetter

from framebench.claims.claim import Claim
from framebench.claims.rows import read_claims
from framebench.claims.search import Index, find_other_commands

ID = re.compile(r"[A-DR]\d{1,2}(?!\w)")  # and no A100


class UnknownClaim(ValueError):
    """An id that no claim has; the message lists the ids there are."""


class Registry:
    """The claims in the order of their sources."""

    def __init__(self, claims: tuple[Claim, ...]) -> None:
        """Keep the claims, and all their ids and names in `names`."""
        self.claims = claims
        self.names = {claim.id for claim in claims} | {claim.name.upper() for claim in claims}

    @cached_property
    def index(self) -> Index:
        """Return the index of the words of all claims."""
        return Index(self.claims)

    def select(self, texts: Iterable[str]) -> tuple[Claim, ...]:
        """Return the claims with these ids, names, such as `B1 memory`, or words.

        An id stands for all of its parts; upper and lower case are the same. Of the claims that
        words find, the best come first. Without any text these are all claims. Raises UnknownClaim.
        """
        queries = self.join_parts(texts)
        if not queries:
            return self.claims
        claims_by_name: dict[str, Claim] = {}  # in the order of the queries, each once
        for query in queries:
            matching = self.find(query)
            if not matching:
                raise UnknownClaim(self.describe_unknown(query))
            claims_by_name |= {claim.name: claim for claim in matching}
        if all(map(ID.match, queries)):
            return tuple(claim for claim in self.claims if claim.name in claims_by_name)
        return tuple(claims_by_name.values())

    def find(self, query: str) -> list[Claim]:
        """Return the claims with this id or name, or those that words find, the best first."""
        if not ID.match(query):
            return self.index.rank(query)
        return [claim for claim in self.claims if query in (claim.id, claim.name.upper())]

    def list_unknown_words(self, texts: Iterable[str]) -> list[str]:
        """Return the words that no claim has, of queries that find claims by others."""
        unknown = []
        for query in self.list_word_queries(texts):
            unknown += self.index.find_unknown(query)
        return unknown

    def list_other_commands(self, texts: Iterable[str]) -> list[str]:
        """Return a sentence for each other command that answers one of these queries."""
        sentences: list[str] = []
        for query in self.list_word_queries(texts):
            sentences += find_other_commands(query)
        return sentences

    def list_word_queries(self, texts: Iterable[str]) -> list[str]:
        """Return the queries that are no ids of claims."""
        return [query for query in self.join_parts(texts) if not ID.match(query)]

    def join_parts(self, texts: Iterable[str]) -> list[str]:
        """Return queries in upper case as a user types them, with quotes or without.

        A part that follows its id belongs to it; words without an id are one query.
        """
        queries: list[str] = []
        for text in texts:
            query = " ".join(text.replace("-", " ").upper().split())
            if queries and query not in self.names and f"{queries[-1]} {query}" in self.names:
                queries[-1] += f" {query}"
            elif query:
                queries.append(query)
        if queries and not any(map(ID.match, queries)):
            return [" ".join(queries)]
        return queries

    def describe_unknown(self, query: str) -> str:
        """Return a message with the ranges of ids, for a query that finds no claim."""
        ranges = []
        for _, source_claims in groupby(self.claims, key=attrgetter("source")):
            ids = [claim.id for claim in source_claims]
            ranges.append(f"{ids[0]} to {ids[-1]}")
        hint = "the list of all: framebench claims"
        first = query.partition(" ")[0]
        if first in self.names:
            hint = f"its parts: framebench claims {first}"
        return f"no claim {query}, and none with these words; claims: {', '.join(ranges)}; {hint}"


REGISTRY = Registry(read_claims())
