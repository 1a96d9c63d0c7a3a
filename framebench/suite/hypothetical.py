"""Cases that are predicted, not measured: of any batch. Standard library only, as workers read it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from framebench.models import spec
from framebench.suite.case import DEFAULT_SIZE, Case, UnknownCase
from framebench.suite.selectors import parse


@dataclass(frozen=True, order=True)
class Described(Case):
    """A case of a model that no size declares: `shape` is its configuration, and `size` only a word for it."""

    shape: Any = field(default=None, kw_only=True)

    @property
    def config(self) -> Any:
        variant = self.plan.variant
        return self.spec.variants[variant](self.shape) if variant else self.shape


def named(case_id: str) -> Case:
    """The case with this id, whose size may be left out; its batch needs no golden values. Raises UnknownCase."""
    case_id = sized(case_id)
    try:
        return parse(case_id)
    except UnknownCase:
        try:
            case = Case.of(case_id)
        except ValueError:
            case = None
        if case is None or case.workload not in spec.list_workloads():
            raise
    preset = case.spec.sizes.get(case.size)
    return replace(parse(replace(case, batch=preset.base).id if preset else case.id), batch=case.batch)


def sized(case_id: str) -> str:
    """With the default size where the last of six parts is left out."""
    return f"{case_id.rstrip('/')}/{DEFAULT_SIZE}" if case_id.strip("/").count("/") == 4 else case_id


def obstacle(case: Case) -> str | None:
    """Why fake tensors cannot predict this case, if they cannot."""
    parts = {part.axis: part.name for part in case.parts}
    if case.framework != "torch" and case.ranks == 1:
        return "only PyTorch has fake tensors"
    if not case.support.supported or case.support.gpu:
        return case.support.why
    if {"adamw_8bit", "adamw_8bit_bnb", "int8"} & {part.how for part in case.parts}:
        return "tensors in 8 bits are not followed on fake tensors"
    if any(part.how == "factored" for part in case.parts):
        return "Adafactor's update asks how large weights are, and fake tensors have no numbers"
    if "execution" in parts or parts.get("pair", "").startswith("scripted"):
        return "only eager execution is predicted: a compiler decides anew what is kept"
    if "loading" in parts:
        return "the loader's threads and files are real"
    if "memory format" in parts:
        return "modules of fake tensors cannot be converted to another memory format"
    return None
