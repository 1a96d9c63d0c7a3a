"""Name cases that are only predicted: of any batch, and of models that no size declares.

Standard library only, since workers read it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, NoReturn

from framebench.models import spec
from framebench.suite.case import BATCH, DEFAULT_SIZE, FULL_SIZE, Case, UnknownCase
from framebench.suite.selectors import PARTS, parse, select
from framebench.suite.sequences import drop_duplicates

LARGEST_BATCH = 2**16  # samples; making the inputs of a larger batch takes minutes


@dataclass(frozen=True, order=True)
class DescribedCase(Case):
    """A case of a model that no size declares: `shape` is its configuration, `size` its name."""

    shape: Any = field(default=None, kw_only=True)

    @property
    def config(self) -> Any:
        """Return the shape, changed as the strategy's variant says."""
        variant = self.strategy_spec.variant
        return self.workload_spec.variants[variant](self.shape) if variant else self.shape


def parse_any_batch(case_id: str) -> Case:
    """Return the case with this id, whose size may be left out; its batch needs no golden values.

    Raises UnknownCase.
    """
    case_id = add_missing_size(case_id)
    described = select_described(case_id)
    if len(described) == 1:
        return described[0]
    try:
        return parse(case_id)
    except UnknownCase:
        # perhaps all parts but the batch are declared
        try:
            case = Case.from_id(case_id)
        except ValueError:
            case = None
        if case is None or case.workload not in spec.list_workloads():
            raise
    if case.batch > LARGEST_BATCH:
        raise UnknownCase(
            f"b{case.batch} in {case_id!r} is more than any step has; "
            f"choose at most b{LARGEST_BATCH}"
        )
    # `parse` raises UnknownCase where another part than the batch is wrong
    preset = case.workload_spec.sizes.get(case.size)
    declared_id = replace(case, batch=preset.base).id if preset else case.id
    return replace(parse(declared_id), batch=case.batch)


def name_described(
    parameters: float, sequence: int, width: int | None, layers: int | None, vocabulary: int
) -> str:
    """Return the name of the size that these numbers describe, such as 1.3B-s2048."""
    unit, divisor = ("B", 1e9) if parameters >= 1e9 else ("M", 1e6)
    count = f"{parameters / divisor:.6f}".rstrip("0").rstrip(".")  # without an exponent
    name = f"{count}{unit}"
    if sequence != spec.SEQUENCE:
        name += f"-s{sequence}"
    if width:
        name += f"-w{width}"
    if layers:
        name += f"-l{layers}"
    if vocabulary != spec.VOCABULARY:
        name += f"-v{vocabulary}"
    return name


def select_described(selector: str) -> list[Case]:
    """Return the cases of a selector whose size is a description, such as `.../b1/1.3B`.

    The cases have the strategies of the size `full`, and the batch that the selector names, or else
    1. If the size has another form, the list is empty. Raises UnknownCase.
    """
    parts = selector.strip("/").split("/")
    if len(parts) != len(PARTS) or spec.DESCRIBED.fullmatch(parts[-1]) is None:
        return []
    *other_parts, batch, size = parts
    matched = BATCH.fullmatch(batch)
    number = int(matched["batch"]) if matched else 1
    declared_selector = "/".join([*other_parts, "*", FULL_SIZE])
    try:
        declared_cases = select(declared_selector)
    except UnknownCase as error:  # it is about the size that was asked for
        message = str(error).replace(repr(declared_selector), repr(selector))
        raise UnknownCase(message) from None
    cases = []
    for case in declared_cases:
        check_described(case.workload, size)
        cases.append(replace(case, batch=number, size=size))
    return drop_duplicates(cases)


def check_described(workload: str, size: str) -> None:
    """Check that a workload has models of this described size. Raises UnknownCase."""
    try:
        described = spec.load_workload(workload).describe(size)
    except ValueError as error:
        raise UnknownCase(str(error)) from None
    if described is None:
        refuse_undescribed(workload)


def refuse_undescribed(workload: str) -> NoReturn:
    """Raise UnknownCase for a workload whose size cannot be given as a number of parameters.

    The message names those whose size can, such as `1.3B`.
    """
    able = [name for name in spec.list_workloads() if spec.load_workload(name).described]
    raise UnknownCase(
        f"{workload} cannot be described by its parameters alone; choose from: {', '.join(able)}"
    )


def add_missing_size(case_id: str, size: str = DEFAULT_SIZE) -> str:
    """Return the id, with this size added if the last of the six parts is left out."""
    has_size = case_id.strip("/").count("/") != 4
    return case_id if has_size else f"{case_id.rstrip('/')}/{size}"


def explain_unpredictable(case: Case) -> str | None:
    """Return why no prediction exists for this case, or None if one does."""
    names = {part.axis: part.name for part in case.parts}
    switches = {part.switch for part in case.parts}
    # JAX over ranks is predicted from the compiled step, without fake tensors
    if case.framework != "torch" and case.ranks == 1:
        return "only PyTorch has fake tensors"
    support = case.support
    if not support.supported or support.gpu:
        return support.why
    if switches & {"adamw_8bit", "adamw_8bit_bnb", "int8"}:
        return "tensors in 8 bits are not followed on fake tensors"
    if "factored" in switches:
        return "Adafactor's update asks how large weights are, and fake tensors have no numbers"
    if "execution" in names or names.get("pair", "").startswith("scripted"):
        return "only eager execution is predicted: a compiler decides anew what is kept"
    if "loading" in names:
        return "the loader's threads and files are real"
    if "memory format" in names:
        return "modules of fake tensors cannot be converted to another memory format"
    return None


def describe_shape(shape: Any) -> str:
    """Return the numbers of a model's configuration in words."""
    texts = []
    for name, value in asdict(shape).items():
        if value:
            texts.append(f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}")
    return ", ".join(texts)


# how long or wide a sample is, by the parameter of the workload that says it
SAMPLES = {
    "image": "images of {0} x {0} px",
    "patch": "{0}^3 voxels",
    "length": "{0:,} tokens a sample",
}


def describe_sample(shape: Any) -> str:
    """Return how large a sample of a model's configuration is, or "" if that is not known."""
    for name, text in SAMPLES.items():
        value = getattr(shape, name, None)
        if value is not None:
            return text.format(value)
    return ""
