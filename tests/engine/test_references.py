"""Where there are no float64 values, the session's float32 baselines verify the other cases."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framebench.engine import references
from framebench.records import store
from framebench.suite.case import Case
from framebench.suite.protocol import Reference
from framebench.suite.result import Verification
from framebench.suite.selectors import parse
from framebench.suite.tensors import Summaries
from framebench.worker.observe import Observed
from framebench.worker.tolerances import derive_tolerances
from framebench.worker.verification import verify
from tests.callbacks import ignore
from tests.fake_records import provenance, record

BASE = parse("resnet50/torch/train/fp32/b64/full")
SEEN = {"loss_0": 6.9, "grad_norm": 2.0, "loss_1": 6.8}
GRADIENT: Summaries = {"gradient": {"fc.bias": (2.0, 1.0, -1.0, 0.5)}}


def append_record(root: Path, case: Case, status: str = "ok", session: str = "s") -> None:
    """Write a record of a case with the values and gradients above."""
    verification = Verification(passed=status == "ok", observed=SEEN, summaries=GRADIENT)
    measured = record(
        case, status=status, verification=verification, provenance=provenance(session=session)
    )
    store.append(measured, store.find_file(root, "m", f"{case.framework}-1"))


def find_reference(root: Path, case: str) -> Reference | None:
    return references.find_reference(parse(case), [], "s", root, "m")


def test_the_baseline_of_the_session_is_the_reference(tmp_path):
    append_record(tmp_path, parse("resnet50/torch/train/checkpoint/b64/full"))
    append_record(tmp_path, BASE)
    for case in ("resnet50/jax/train/fp32/b64/full", "resnet50/torch/train/tf32/b64/full"):
        assert find_reference(tmp_path, case) == Reference(BASE.id, SEEN, GRADIENT)
    assert find_reference(tmp_path, BASE.id) == Reference(
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
def test_records_of_other_work_are_not_used_as_reference(case, status, session, tmp_path):
    append_record(tmp_path, Case.from_id(case), status, session)
    assert find_reference(tmp_path, "resnet50/jax/train/checkpoint/b64/full") is None


def make_adapter(case: Case) -> Any:
    return SimpleNamespace(case=case, workload=case.workload_spec, find_known_fault=ignore)


ALLOWED = 1e-3
TOLERANCES = derive_tolerances(Observed(SEEN, GRADIENT), [Observed(SEEN, GRADIENT)], ALLOWED)


def test_a_case_is_verified_against_a_float32_record_of_the_session():
    adapter = make_adapter(parse("resnet50/jax/train/fp32/b64/full"))
    reference = Reference(BASE.id, SEEN, GRADIENT)
    near = make_observed(loss_0=SEEN["loss_0"] * (1 + 0.9 * ALLOWED))
    far = make_observed(loss_0=SEEN["loss_0"] * (1 + 1.1 * ALLOWED))
    verification = verify(adapter, near, TOLERANCES, reference)
    assert (verification.passed, verification.against) == (True, BASE.id)
    assert not verify(adapter, far, TOLERANCES, reference).passed


def test_the_first_of_its_kind_must_be_finite_and_float32():
    first = verify(make_adapter(BASE), make_observed(), TOLERANCES)
    assert first.passed
    assert "no float64 values" in first.reason
    assert first.summaries == GRADIENT
    assert not verify(make_adapter(BASE), make_observed(loss_1=math.nan), TOLERANCES).passed
    tf32 = make_adapter(parse("resnet50/torch/train/tf32/b64/full"))
    assert not verify(tf32, make_observed(), TOLERANCES).passed


def make_observed(**values: float) -> Observed:
    return Observed(SEEN | values, GRADIENT)


def test_baselines_are_measured_first_and_small_sizes_keep_their_order():
    requested = [
        "resnet50/jax/eval/tf32/b64/full",
        "resnet50/jax/eval/no_grad/b64/full",
        "resnet50/torch/eval/tf32/b64/full",
        "resnet50/torch/eval/no_grad/b64/full",
        "resnet50/torch/eval/inference_mode/b8/cpu",
        "resnet50/torch/eval/no_grad/b8/cpu",
    ]
    ordered = references.order_by_reference([parse(case) for case in requested])
    assert [case.id for case in ordered] == [
        "resnet50/torch/eval/inference_mode/b8/cpu",
        "resnet50/torch/eval/no_grad/b8/cpu",
        "resnet50/torch/eval/no_grad/b64/full",
        "resnet50/jax/eval/no_grad/b64/full",
        "resnet50/torch/eval/tf32/b64/full",
        "resnet50/jax/eval/tf32/b64/full",
    ]
