"""What makes a kept prediction stale, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from framebench.features.devices.plans import fingerprint
from framebench.features.devices.plans.fingerprint import meaning, of_files, planner

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
def test_words_and_places_do_not_count(tmp_path: Path, same: str) -> None:
    assert meaning(written(tmp_path, "a.py", MODULE)) == meaning(written(tmp_path, "b.py", same))


@pytest.mark.parametrize(("before", "after"), [("512", "256"), ("import torch", "import numpy"), ("blocks", "segments")])
def test_what_a_module_does_counts(tmp_path: Path, before: str, after: str) -> None:
    assert meaning(written(tmp_path, "a.py", MODULE)) != meaning(written(tmp_path, "b.py", MODULE.replace(before, after)))


def test_modules_may_move_and_change_their_names(tmp_path: Path) -> None:
    here = [written(tmp_path / "a", "a.py", MODULE), written(tmp_path / "a", "b.py", "X = 1\n")]
    there = [written(tmp_path / "b", "c.py", "X = 1\n"), written(tmp_path / "c", "a.py", MODULE)]
    assert of_files(here) == of_files(there) != of_files(here[:1])


def test_each_planner_is_known_by_its_modules() -> None:
    assert {"allocator.py", "blocks.py", "torch_plan.py", "torch_kernels.py"} <= {path.name for path in planner("torch")}
    assert {path.name for path in planner("jax")} == {"jax_plan.py", "jax_target.py", "jax_buffers.py", "sources.py"}
    assert planner("jittor") == []


def test_a_model_of_another_framework_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []
    monkeypatch.setattr(fingerprint, "of_files", lambda files: seen.extend(files) or "")
    fingerprint._sources.__wrapped__("jax", "transformer")
    names = {path.name for path in seen}
    assert {"flax_model.py", "spec.py", "adapter.py", "flax_blocks.py"} <= names
    assert not [name for name in names if name.startswith(("torch_", "jittor_"))]
