"""What makes a kept prediction stale, and what does not."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from framebench.features.devices.catalog import find
from framebench.features.devices.plans import fingerprint
from framebench.features.devices.plans.fingerprint import fingerprint as told
from framebench.features.devices.plans.fingerprint import meaning, of_files, planner, pool
from framebench.records.provenance import PACKAGE
from framebench.suite.case import Case

MODULE = '''"""About it."""
from framebench.features.devices import catalog, blocks
import torch
ROUND = 512  # bytes
'''


def written(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    "same",
    [
        MODULE.replace("About", "Of"),
        MODULE.replace("  # bytes", ""),
        MODULE.replace("framebench.features.devices", "framebench.features.devices.simulation"),
        MODULE.replace(
            "from framebench.features.devices import catalog, blocks",
            "from framebench.features.devices.simulation import blocks\nfrom framebench.features.devices import catalog",
        ),
    ],
)
def test_words_and_places_do_not_count(same: str) -> None:
    assert meaning(MODULE) == meaning(same)


@pytest.mark.parametrize(("before", "after"), [("512", "256"), ("import torch", "import numpy"), ("blocks", "segments")])
def test_what_a_module_does_counts(before: str, after: str) -> None:
    assert meaning(MODULE) != meaning(MODULE.replace(before, after))


def test_modules_may_move_and_change_their_names(tmp_path: Path) -> None:
    here = [written(tmp_path / "a", "a.py", MODULE), written(tmp_path / "a", "b.py", "X = 1\n")]
    there = [written(tmp_path / "b", "c.py", "X = 1\n"), written(tmp_path / "c", "a.py", MODULE)]
    assert of_files(here) == of_files(there) != of_files(here[:1])


def test_each_planner_is_known_by_its_modules() -> None:
    assert {"allocator.py", "blocks.py", "torch_plan.py", "torch_kernels.py"} <= {path.name for path in planner("torch")}
    assert {path.name for path in planner("jax")} == {"jax_plan.py", "jax_target.py", "jax_buffers.py", "sources.py"}
    assert planner("jittor") == []


def test_a_model_of_another_framework_does_not_count() -> None:
    names = {path.name for path in pool("jax")}
    assert {"flax_weights.py", "spec.py", "adapter.py", "flax_blocks.py"} <= names
    assert not [name for name in names if name.startswith(("torch_", "jittor_"))]


KEPT = [
    *((f"transformer/{f}/train/{s}/b8/full", "") for f in ("torch", "jax") for s in ("fp32", "checkpoint")),
    *((f"unet3d/{f}/train/fp32/b2/full", "") for f in ("torch", "jax")),
    ("transformer/torch/train/fp32/b8/full", "2.11.0"),
    ("transformer/jax/train/fp32/b8/full", "0.8.3"),
]  # fmt: skip
PLANTED = [  # file, what stands there and what is put there, and which plans that ages: parts of the case and version
    ("adapters/jax/adapter.py", "def one_step(self) -> None:", "def one_step(self, *more) -> None:", ["/jax/"]),
    ("adapters/torch/adapter.py", "def make(self)", "def make(self, *more)", ["/torch/"]),
    ("adapters/base.py", "self.steps += 1\n", "self.steps += 2\n", ["/torch/", "/jax/"]),
    ("adapters/torch/checkpoint.py", "=False, **chosen", "=True, **chosen", ["/torch/train/checkpoint"]),
    ("adapters/torch/checkpoint.py", 'if hasattr(one, "get_seq', 'if hasattr(one, "got_seq', ["/torch/train/checkpoint"]),
    ("adapters/jax/checkpoint.py", "def checkpoint(", "def checkpoint(*more, ", ["/jax/train/checkpoint"]),
    ("models/unet3d/torch_model.py", "def build(", "X = 1\n\n\ndef build(", ["unet3d/torch"]),
    ("models/unet3d/spec.py", "WORKLOAD = ", "X = 1\nWORKLOAD = ", ["unet3d/"]),
    ("features/devices/simulation/allocator.py", "def malloc(self", "def malloc(self, *more", ["/torch/"]),
    ("features/devices/xla/jax_plan.py", "POOL = 0.75", "POOL = 0.7", ["/jax/"]),
    ("features/devices/releases/torch_other.py", "def note() -> str:\n", "def note() -> str:\n    x = 1\n", ["2.11.0"]),
    ("features/devices/releases/jax_older.py", "\ndef ", "\ndef more(): ...\n\n\ndef ", ["0.8.3"]),
    ("adapters/torch/checkpoint.py", 'again = [b for b', 'again = [x for b', []),  # of a proof
    ("adapters/torch/memory.py", "def foreach(", "def foreach(*more, ", []),  # another strategy's
    ("adapters/torch/adapter.py", "def observe(", "def observe(*more, ", []),  # what a plan does not ask for
    ("adapters/torch/process.py", '"""An earlier case of', '"""Some earlier case of', []),
    ("models/spec.py", "    def incomparable", "    def never_named(self): ...\n    def incomparable", []),
    ("models/spec.py", "    def incomparable", "    def norm_(self): ...\n    def incomparable", []),
    ("models/spec.py", "    def incomparable", "    def trains(self): ...\n    def incomparable", ["/torch/", "/jax/"]),
    ("models/spec.py", "class Param:", "class Param:\n    more: int = 1\n", ["/torch/", "/jax/"]),
    ("adapters/jittor/adapter.py", "def ", "def x() -> None: ...\n\n\ndef ", []),
]  # fmt: skip


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our sources, to be edited."""
    where = tmp_path_factory.mktemp("sources")
    for folder in ("adapters", "models", "suite", "features/devices", "features/ranks"):
        shutil.copytree(PACKAGE / folder, where / folder, ignore=shutil.ignore_patterns("__pycache__", "*.json*"))
    return where


def fingerprints() -> dict[str, str]:
    """By case and version; what others have asked for is forgotten, and so is this."""
    fingerprint._code.cache_clear()
    found = {f"{case} {version}": told(Case.of(case), find("h100-80gb"), version or None) for case, version in KEPT}
    fingerprint._code.cache_clear()
    return found


@pytest.mark.parametrize(("name", "before", "after", "aged"), PLANTED)
def test_an_edit_ages_exactly_the_plans_that_it_touches(
    copied: Path, monkeypatch: pytest.MonkeyPatch, name: str, before: str, after: str, aged: list[str]
) -> None:
    feature = copied / "features/devices"
    monkeypatch.setattr(fingerprint, "PACKAGE", copied)
    monkeypatch.setattr(fingerprint, "FEATURE", feature)
    monkeypatch.setattr(fingerprint, "PLANNERS", {"torch": feature / "simulation", "jax": feature / "xla"})
    kept, source = fingerprints(), (copied / name).read_text()
    assert before in source
    try:
        (copied / name).write_text(source.replace(before, after, 1))
        edited = fingerprints()
    finally:
        (copied / name).write_text(source)
    assert {case for case in kept if kept[case] != edited[case]} == {
        case for case in kept if any(part in case for part in aged)
    }


def test_a_device_ages_its_plans_by_its_figures_alone() -> None:
    case, card = Case.of(KEPT[0][0]), find("h100-80gb")
    assert told(case, card) == told(case, replace(card, source="another page"))
    assert told(case, card) != told(case, replace(card, memory_bytes=card.memory_bytes - 1))


def test_a_strategy_ages_its_plans_by_its_row() -> None:
    plain, other = (Case.of(f"transformer/torch/train/{s}/b8/full") for s in ("checkpoint", "checkpoint_every_2"))
    assert [part.how for part in plain.parts] == [part.how for part in other.parts], "the same switch with other options"
    assert told(plain, find("h100-80gb")) != told(other, find("h100-80gb"))
