"""Where there are no float64 values, the session's float32 baselines verify the other cases."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framebench.engine import references
from framebench.records import store
from framebench.records.record import Record
from framebench.suite.case import Case
from framebench.suite.protocol import Reference, Task
from framebench.suite.result import Verification
from framebench.suite.selectors import parse
from framebench.suite.tensors import Summaries
from framebench.worker.observe import Observed
from framebench.worker.tolerances import derive_tolerances
from framebench.worker.verification import verify
from tests.fake_records import provenance

BASE = parse("resnet50/torch/train/fp32/b64/full")
SEEN = {"loss_0": 6.9, "grad_norm": 2.0, "loss_1": 6.8}
GRADIENT: Summaries = {"gradient": {"fc.bias": (2.0, 1.0, -1.0, 0.5)}}


def write(
    root: Path, case: Case, status: str = "ok", session: str = "s", seen: dict[str, float] = SEEN
) -> None:
    verification = Verification(passed=status == "ok", observed=dict(seen), summaries=GRADIENT)
    record = Record(
        case=case.id,
        status=status,
        verification=verification,
        provenance=provenance(session=session),
    )
    store.append(record, store.find_file(root, "m", f"{case.framework}-1"))


def found(root: Path, case: str) -> Reference | None:
    return references.find_in_records(parse(case), "s", root, "m")


def test_the_baseline_of_the_session_is_the_reference(tmp_path: Path) -> None:
    write(tmp_path, parse("resnet50/torch/train/checkpoint/b64/full"))
    write(tmp_path, BASE)
    for case in ("resnet50/jax/train/fp32/b64/full", "resnet50/torch/train/tf32/b64/full"):
        assert found(tmp_path, case) == Reference(BASE.id, SEEN, GRADIENT)
    assert found(tmp_path, BASE.id) == Reference(
        "resnet50/torch/train/checkpoint/b64/full", SEEN, GRADIENT
    )


@pytest.mark.parametrize(
    ("case", "status", "session"),
    [
        ("resnet50/torch/train/fp32/b64/full", "ok", "another session"),
        ("resnet50/torch/train/fp32/b64/full", "wrong", "s"),
        ("resnet50/torch/train/tf32/b64/full", "ok", "s"),
        ("resnet50/torch/train/width_half/b64/full", "ok", "s"),
        ("resnet50/torch/train/fp32/b128/full", "ok", "s"),
        ("transformer/torch/train/fp32/b64/full", "ok", "s"),  # its values have the same name
    ],
)
def test_what_is_no_reference(case: str, status: str, session: str, tmp_path: Path) -> None:
    write(tmp_path, Case.from_id(case), status, session)
    assert found(tmp_path, "resnet50/jax/train/checkpoint/b64/full") is None


def test_sizes_with_golden_values_need_none(tmp_path: Path) -> None:
    write(tmp_path, parse("resnet50/torch/train/fp32/b8/cpu"))
    assert found(tmp_path, "resnet50/jax/train/fp32/b8/cpu") is None


def adapter(case: Case) -> Any:
    return SimpleNamespace(case=case, workload=case.spec, find_known_fault=lambda: None)


ALLOWED = 1e-3
TOLERANCES = derive_tolerances(Observed(SEEN, GRADIENT), [Observed(SEEN, GRADIENT)], ALLOWED)


def test_a_case_is_verified_against_a_float32_record_of_the_session() -> None:
    case, reference = parse("resnet50/jax/train/fp32/b64/full"), Reference(BASE.id, SEEN, GRADIENT)
    near = verify(adapter(case), seen(loss_0=6.9 * (1 + 0.9 * ALLOWED)), TOLERANCES, reference)
    assert (near.passed, near.against) == (True, BASE.id)
    assert not verify(
        adapter(case), seen(loss_0=6.9 * (1 + 1.1 * ALLOWED)), TOLERANCES, reference
    ).passed


def test_the_first_of_its_kind_must_be_finite_and_float32() -> None:
    alone = verify(adapter(BASE), seen(), TOLERANCES)
    assert alone.passed
    assert "no float64 values" in (alone.reason or "")
    assert alone.summaries == GRADIENT
    assert not verify(adapter(BASE), seen(loss_1=math.nan), TOLERANCES).passed
    assert not verify(
        adapter(parse("resnet50/torch/train/tf32/b64/full")), seen(), TOLERANCES
    ).passed


def seen(**values: float) -> Observed:
    return Observed(SEEN | values, GRADIENT)


def test_baselines_are_measured_first_and_small_sizes_keep_their_order() -> None:
    small = [parse(f"resnet50/torch/eval/{s}/b8/cpu") for s in ("inference_mode", "no_grad")]
    large = [
        parse(f"resnet50/{f}/eval/{s}/b64/full")
        for f in ("jax", "torch")
        for s in ("tf32", "no_grad")
    ]
    ordered = references.order_by_reference([*large, *small])
    assert ordered[:2] == small
    assert [f"{c.framework}/{c.strategy}" for c in ordered[2:]] == [
        "torch/no_grad",
        "jax/no_grad",
        "torch/tf32",
        "jax/tf32",
    ]


def test_a_task_survives_its_command_line() -> None:
    for reference in (None, Reference(BASE.id, SEEN, GRADIENT)):
        task = Task(BASE.id, "time", reference=reference)
        assert Task.from_dict(task.as_dict()) == task
