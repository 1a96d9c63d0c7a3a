"""Proofs that a strategy was on: what was counted, what was expected, and the verdict.

A switch returns a proof, which is built by plain calls:

    expect(graph_nodes=0, saved_tensors=0)        counts of the observed step, by key
    expect(kernels=above(0))                      a relation in the place of a value
    expect(residuals=(above(0), below("blocks"))) several of them; a string names another count
    expect({"operators.cat": 0})                  an entry of a dictionary of counts
    check(is_faster, "the second is faster")      a function of the evidence
    expect(weights_moved=4).counting(count)       adds what `count` returns to the evidence first
    one & other                                   both

Whatever a proof looks at is in the evidence, and so in the record, where a reader can judge too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from framebench.suite.result import StrategyEffect

# What was counted, by name: numbers, texts, and lists and dictionaries of them, as JSON takes them.
Evidence = dict[str, Any]
Count = Callable[[Evidence], Evidence]


def read(evidence: Evidence, key: str) -> Any:
    """Return the value of a key, or of `key.entry`. Raises KeyError.

    A dictionary of counts has no entry of what never occurred: that is 0.
    """
    name, _, entry = key.partition(".")
    value = evidence[name]
    return value.get(entry, 0) if entry else value


@dataclass(frozen=True)
class OtherCount:
    """Another count of the same evidence as an expected value, multiplied by a constant."""

    key: str
    factor: float = 1

    def read(self, evidence: Evidence) -> Any:
        """Return the value, or None where it was not counted. Raises KeyError."""
        value = read(evidence, self.key)
        return value if value is None or self.factor == 1 else self.factor * value

    def __str__(self) -> str:
        return self.key if self.factor == 1 else f"{self.factor:g} * {self.key}"


@dataclass(frozen=True)
class Relation:
    """What must hold between an observed value and an expected one."""

    words: str  # between "expected" and the expected value
    holds: Callable[[Any, Any], bool]
    expected: Any  # a value, or an `OtherCount`

    def is_met(self, observed: Any, evidence: Evidence) -> bool:
        """Return whether the relation holds. Raises KeyError."""
        return bool(self.holds(observed, self.expected_in(evidence)))

    def expected_in(self, evidence: Evidence) -> Any:
        """Return the expected value. Raises KeyError."""
        expected = self.expected
        return expected.read(evidence) if isinstance(expected, OtherCount) else expected

    def describe(self, evidence: Evidence) -> str:
        """Return what is expected in words, with the number that another count has."""
        expected = self.expected
        if isinstance(expected, OtherCount):
            value = f"{expected} ({expected.read(evidence)})"
        elif isinstance(expected, set):
            value = ", ".join(sorted(expected))
        elif isinstance(expected, str):
            value = repr(expected)  # the empty one would not be seen
        else:
            value = str(expected)
        return f"{self.words} {value}".strip()


def above(bound: float | str, times: float = 1) -> Relation:
    """Expect more than a number, or than `times` another count."""
    return _compare_with("more than", operator.gt, bound, times)


def at_least(bound: float | str, times: float = 1) -> Relation:
    """Expect no less than a number, or than `times` another count."""
    return _compare_with("at least", operator.ge, bound, times)


def below(bound: float | str, times: float = 1) -> Relation:
    """Expect less than a number, or than `times` another count."""
    return _compare_with("less than", operator.lt, bound, times)


def at_most(bound: float | str, times: float = 1) -> Relation:
    """Expect no more than a number, or than `times` another count."""
    return _compare_with("at most", operator.le, bound, times)


def equal_to(key: str, times: float = 1) -> Relation:
    """Expect what another count has, or `times` that."""
    return Relation("", operator.eq, OtherCount(key, times))


def other_than(value: Any) -> Relation:
    """Expect any value but this one."""
    return Relation("other than", operator.ne, value)


def only(*names: str, ignoring: Iterable[str] = ()) -> Relation:
    """Expect a dictionary of counts that has these entries and no others."""
    return Relation("only", _compare_names(operator.eq, ignoring), set(names))


def none_but(*names: str, ignoring: Iterable[str] = ()) -> Relation:
    """Expect a dictionary of counts that has no entries but these, or none at all."""
    return Relation("none but", _compare_names(operator.le, ignoring), set(names))


def including(*names: str) -> Relation:
    """Expect a dictionary of counts that has these entries, and maybe others."""
    return Relation("entries for", _compare_names(operator.ge, ()), set(names))


def if_counted(expected: Any) -> Relation:
    """Return a relation that also accepts None, for what cannot be counted in a compiled step."""
    relation = as_relation(expected)

    def holds(observed: Any, value: Any) -> bool:
        return observed is None or relation.holds(observed, value)

    return Relation(relation.words, holds, relation.expected)


def as_relation(expected: Any) -> Relation:
    """Return a relation as it is, and a value as equality with it."""
    return expected if isinstance(expected, Relation) else Relation("", operator.eq, expected)


def _compare_with(
    words: str, holds: Callable[[Any, Any], bool], bound: float | str, times: float
) -> Relation:
    """Return a relation to a number, or to `times` the count whose name is `bound`."""

    def both_counted(observed: Any, expected: Any) -> bool:
        return observed is not None and expected is not None and holds(observed, expected)

    if isinstance(bound, str):
        return Relation(words, both_counted, OtherCount(bound, times))
    return Relation(words, both_counted, bound)


def _compare_names(
    holds: Callable[[Any, Any], bool], ignoring: Iterable[str]
) -> Callable[[Any, Any], bool]:
    """Return a comparison of the names of counts, but for the ignored ones."""

    def compare(observed: Iterable[str], names: set[str]) -> bool:
        return holds(set(observed) - set(ignoring), names)

    return compare


@dataclass(frozen=True)
class Expectation:
    """One count, and the relation that must hold for it."""

    key: str
    relation: Relation

    def failure(self, evidence: Evidence) -> str:
        """Return what was expected and what was observed; empty if it is met. Raises KeyError."""
        observed = read(evidence, self.key)
        if self.relation.is_met(observed, evidence):
            return ""
        if observed is None:
            value = "nothing that can be counted"
        else:
            value = repr(observed) if isinstance(observed, str) else str(observed)
        return f"{self.key}: expected {self.relation.describe(evidence)}, observed {value}"


@dataclass(frozen=True)
class Check:
    """A condition on the evidence that a function computes."""

    function: Callable[[Evidence], bool]
    reason: str  # a sentence that is true where the function returns True

    def failure(self, evidence: Evidence) -> str:
        """Return what does not hold; empty if it does."""
        if self.function(evidence):
            return ""
        return f"it does not hold that {self.reason}"


@dataclass(frozen=True)
class Proof:
    """What must be true of the evidence if a strategy was on."""

    expectations: tuple[Expectation | Check, ...]
    counts: tuple[Count, ...] = ()  # called in this order before the verdict

    def counting(self, count: Count) -> Proof:
        """Return a proof that first adds to the evidence what `count` returns of it.

        `count` may make steps of its own.
        """
        return Proof(self.expectations, (*self.counts, count))

    def __and__(self, other: Proof) -> Proof:
        return Proof(self.expectations + other.expectations, self.counts + other.counts)

    def judge(self, evidence: Evidence) -> StrategyEffect:
        """Return the verdict, all evidence, and the expectations that failed if it is no."""
        complete = dict(evidence)
        for count in self.counts:
            complete |= count(complete)
        failures = [expectation.failure(complete) for expectation in self.expectations]
        reason = "; ".join(filter(None, failures))
        return StrategyEffect(not reason, complete, reason or None)


def expect(counts: Mapping[str, Any] | None = None, /, **more: Any) -> Proof:
    """Return a proof that each key of the evidence has this value, or meets this relation or these.

    `counts` takes keys that are no names of Python, such as entries of dictionaries.
    """
    expectations = []
    for key, expected in {**(counts or {}), **more}.items():
        relations = expected if isinstance(expected, tuple) else (expected,)
        for relation in relations:
            expectations.append(Expectation(key, as_relation(relation)))
    return Proof(tuple(expectations))


def check(function: Callable[[Evidence], bool], reason: str) -> Proof:
    """Return a proof that a function of the evidence is true, as a sentence says."""
    return Proof((Check(function, reason),))


def judge_parts(proofs: Mapping[str, Proof], evidence: Evidence) -> StrategyEffect:
    """Judge every part of a strategy: the whole was on if each of them was.

    The proofs of later parts see what those of earlier ones have counted.
    """
    is_combined = len(proofs) > 1
    proven = {}
    reasons = []
    for name, proof in proofs.items():
        effect = proof.judge(evidence)
        evidence = effect.evidence
        proven[name] = effect.proven
        if effect.reason:
            reasons.append(f"{name}: {effect.reason}" if is_combined else effect.reason)
    if is_combined:
        evidence = evidence | {"proven": proven}
    return StrategyEffect(all(proven.values()), evidence, "; ".join(reasons) or None)
