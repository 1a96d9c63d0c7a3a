"""Cases that are predicted, not measured: of any batch. Standard library only: the torch environment reads this too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from framebench.suite.case import Case, UnknownCase
from framebench.suite.selectors import parse
from models import spec


@dataclass(frozen=True, order=True)
class Described(Case):
    """A case of a model that no size declares: `shape` is its configuration, and `size` only a word for it."""

    shape: Any = None

    @property
    def config(self) -> Any:
        variant = self.plan.variant
        return self.spec.variants[variant](self.shape) if variant else self.shape


def named(case_id: str) -> Case:
    """The case with this full id; its batch needs no golden values. Raises UnknownCase."""
    try:
        return parse(case_id)
    except UnknownCase:
        try:
            case = Case.of(case_id)
        except ValueError:
            case = None
        if case is None or case.workload not in spec.NAMES:
            raise
    preset = case.spec.sizes.get(case.size)
    return replace(parse(replace(case, batch=preset.base).id if preset else case.id), batch=case.batch)


def obstacle(case: Case) -> str | None:
    """Why fake tensors cannot predict this case, if they cannot."""
    parts = {part.axis: part.name for part in case.parts}
    if case.framework != "torch":
        return "only PyTorch has fake tensors"
    if not case.support.supported or case.support.gpu:
        return case.support.why
    if "execution" in parts or parts.get("pair", "").startswith("scripted"):
        return "only eager execution is predicted: a compiler decides anew what is kept"
    if "loading" in parts:
        return "the loader's threads and files are real"
    if "memory format" in parts:
        return "modules of fake tensors cannot be converted to another memory format"
    return None
