"""The search for claims by the words that people type: stems, synonyms and Chinese words.

A query and a claim share *terms*. A term is a number, the stem of an English word, two of these
that stand together, two Chinese characters that stand together, or a concept of `synonyms.toml`
that some word names. A term that few claims have weighs more, and one in the statement of a claim
more than one around it.
"""

from __future__ import annotations

import math
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from framebench.claims.claim import Claim

SYNONYMS = Path(__file__).parent / "synonyms.toml"
OTHER_COMMANDS = Path(__file__).parent / "other_commands.toml"
MOST_CLAIMS = 15  # that a query finds
LEAST_SCORE = 1e-9  # below it query and claim share no term
LEAST_SHARE_OF_BEST = 0.55  # of the best claim's score: a claim below it is not shown
SECONDARY_WEIGHT = 0.5  # of a term that is not in the statement itself
NAMED_WEIGHT = 0.2  # of a word that stands for a concept
# of a model's name: what is claimed is claimed of a technique, and few claims name a model
MODEL_WEIGHT = 0.2
PHRASE_WEIGHT = 0.5  # of two words that stand together, next to those of the words
SIZED_BONUS = 1.02  # of equal claims, one that states a size comes first
WORD = re.compile(r"[a-z]+(?:\d+[a-z]*)*|\d+(?:\.\d+)?")
# the first word of a name such as gradient checkpointing, which says nothing of a claim
FULL_NAME = re.compile(
    r"\b(gradient|activation)s?[ -](?=checkpoint|accumulat)|梯度(?=检查点|累积|累加)"
)
WORKLOADS = {  # by what people write for them
    "resnet50": re.compile("resnet"),
    "unet3d": re.compile("u-?net"),
    "transformer": re.compile(r"transformer|\bgpt"),
}
FRAMEWORKS = {
    "torch": re.compile("torch"),
    "jax": re.compile(r"\bjax|flax"),
    "jittor": re.compile("jittor|计图"),
}
RESNET = re.compile(r"\bresnet[ -]?\d+")
HAN = re.compile(r"[\u4e00-\u9fff]+")
# an ending behind at least three letters; the longest, so that "pruned" and "pruning" are alike
ENDING = re.compile(
    r"(?<=\w\w\w)(ations?|ating|ators?|ate[ds]?|ions?|ings?|ers?|e[ds]|s|e)$",
)
# words that say nothing of a claim
SMALL_WORD = re.compile(
    "an?|and|are|as|at|be|by|can|does|do|for|from|halve[ds]?|how|i|in|is|it|makes?|more|my|not|of|on|one|or|s|"
    "saves?|saved|saving|than|that|the|this|to|true|under|use[ds]?|using|what|when|which|why|with|you|"
    "your"
)


def normalize(text: str) -> str:
    """Return a text in small letters, with one form of each character and short names."""
    text = unicodedata.normalize("NFKC", text).lower()
    text = text.replace("u-net", "unet")
    return RESNET.sub("resnet", FULL_NAME.sub("", text))


def stem(word: str) -> str:
    """Return an English word without its ending: `prun` for pruned, pruning and prune."""
    return ENDING.sub("", word)


MODEL_STEMS = frozenset(map(stem, ("resnet", "transformer", "gpt", "unet")))
# Most claims hold of both, and a report's name has one. Jittor is what some claims are about.
FRAMEWORK_STEMS = frozenset(map(stem, ("torch", "pytorch", "jax", "flax")))


def list_words(text: str) -> list[str]:
    """Return the words and the numbers of a text, in their order, without small words."""
    return [word for word in WORD.findall(normalize(text)) if not SMALL_WORD.fullmatch(word)]


def list_stems(text: str) -> list[str]:
    """Return the stems of a text's words and its numbers, in their order."""
    return [stem(word) for word in list_words(text)]


class Synonym(NamedTuple):
    """A word, or several, that name a concept."""

    # what a text that has it contains: Chinese characters, or stems; blanks around the stems let
    # them match whole stems alone
    searched: str
    concept: str
    terms: list[str]  # that it consists of


@cache
def read_synonyms(file: Path) -> list[Synonym]:
    """Return the synonyms of a file."""
    synonyms = []
    for concept, words in tomllib.loads(file.read_text(encoding="utf-8")).items():
        for word in words:
            if HAN.search(word):
                searched = word
                terms = list_pairs(word)
            else:
                terms = list_stems(word)
                searched = f" {' '.join(terms)} "
            synonyms.append(Synonym(searched=searched, concept=concept, terms=terms))
    return synonyms


def find_synonyms(text: str, file: Path = SYNONYMS) -> dict[str, set[str]]:
    """Return the concepts that a text names, each with the terms of the text that name it."""
    text_and_stems = f"{text} {' '.join(list_stems(text))} "
    terms_by_concept: dict[str, set[str]] = {}
    for synonym in read_synonyms(file):
        if synonym.searched in text_and_stems:
            terms_by_concept.setdefault(synonym.concept, set()).update(synonym.terms)
    return terms_by_concept


def find_subjects(query: str) -> list[str]:
    """Return the suite's workloads and the frameworks that a query names."""
    patterns = WORKLOADS | FRAMEWORKS
    return [name for name, pattern in patterns.items() if pattern.search(query.lower())]


def find_other_commands(query: str) -> list[str]:
    """Return a sentence for each other command that answers a query."""
    return list(find_synonyms(normalize(query), OTHER_COMMANDS))  # the concepts are sentences


def list_pairs(text: str) -> list[str]:
    """Return each two Chinese characters of a text that stand together."""
    pairs = []
    for run in HAN.findall(text):
        pairs += [first + second for first, second in pairwise(run)]
    return pairs


def find_terms(text: str) -> dict[str, float]:
    """Return the terms of a text with their weights; a concept begins with `@`.

    A word that names a concept weighs less itself: its synonyms find nearly as much. For
    `checkpointing conv` it is `{"checkpoint": 0.2, "conv": 1.0, "checkpoint conv": 0.5,
    "@checkpointing": 1.0}`. Only the weights of a query count: an `Index` gives the terms of claims
    weights of its own.
    """
    text = normalize(text)
    words = [*list_stems(text), *list_pairs(text)]
    terms = dict.fromkeys(words, 1.0)
    terms |= dict.fromkeys(MODEL_STEMS & terms.keys(), MODEL_WEIGHT)
    for first, second in pairwise(list_stems(text)):
        terms[f"{first} {second}"] = PHRASE_WEIGHT
    for concept, synonym_terms in find_synonyms(text).items():
        terms |= dict.fromkeys(synonym_terms & terms.keys(), NAMED_WEIGHT)
        terms[f"@{concept}"] = 1.0
    return terms


def names_framework(term: str) -> bool:
    """Return whether a term is the name of PyTorch or JAX, or a phrase with one."""
    return not FRAMEWORK_STEMS.isdisjoint(term.split())


class Index:
    """The terms of some claims."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        """Collect the terms of each claim, and count the claims of each term."""
        self.claims = claims
        self.weights: dict[str, dict[str, float]] = {}  # claim name -> term -> weight
        self.counts: Counter[str] = Counter()  # by term, how many claims have it
        for claim in claims:
            secondary = dict.fromkeys(find_terms(join_secondary_text(claim)), SECONDARY_WEIGHT)
            primary = dict.fromkeys(find_terms(join_primary_text(claim)), 1.0)
            self.weights[claim.name] = secondary | primary
            self.counts.update(self.weights[claim.name].keys())

    def rank(self, query: str) -> list[Claim]:
        """Return the claims that a query finds, the best first, or none if it shares no term.

        A framework's name counts in a query of names alone.
        """
        terms = find_terms(query)
        others = {term: weight for term, weight in terms.items() if not names_framework(term)}
        if others:
            terms = others
        scores = {claim.name: self.score(terms, claim) for claim in self.claims}
        least = max(LEAST_SHARE_OF_BEST * max(scores.values()), LEAST_SCORE)
        # equal ones keep their order
        ranked = sorted(self.claims, key=lambda claim: scores[claim.name], reverse=True)
        return [claim for claim in ranked if scores[claim.name] >= least][:MOST_CLAIMS]

    def score(self, terms: dict[str, float], claim: Claim) -> float:
        """Return how much of a query's terms a claim has: the rarer a term, the more it counts."""
        score = 0.0
        claim_weights = self.weights[claim.name]
        for term, weight in terms.items():
            if term in claim_weights:
                # near 0 for a term that every claim has, which does not distinguish them
                rarity = math.log((1 + len(self.claims)) / self.counts[term])
                score += weight * rarity * claim_weights[term]
        if any(measurement.target.claimed is not None for measurement in claim.deciding):
            score *= SIZED_BONUS
        return score

    def find_unknown(self, query: str) -> list[str]:
        """Return the words of a query that no claim has, and that name no concept."""
        known = set(self.counts).union(*find_synonyms(normalize(query)).values())
        return [word for word in list_words(query) if not {word, stem(word)} & known]


def join_primary_text(claim: Claim) -> str:
    """Return a claim's sentence, followed by `speed` if a measurement compares times.

    A query whether checkpointing is slower is then answered by the row with its times.
    """
    is_timed = any(re.search(r"\btime\b", each.name) for each in claim.measurements)
    return f"{claim.says} speed" if is_timed else claim.says


def join_secondary_text(claim: Claim) -> str:
    """Return the text that counts less than the sentence: metric, claimed size, part and place."""
    names = claim.place.names if claim.place else ()
    phrase = claim.place.phrase if claim.place else ""
    return " ".join((claim.metric, claim.claimed, claim.part, phrase, *names))
