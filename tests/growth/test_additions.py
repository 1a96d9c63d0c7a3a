"""The lines that add to a container are found by its name, in a source that is not run."""

import pytest

from framebench.growth.additions import find_additions


@pytest.mark.parametrize(
    ("line", "adds"),
    [
        ("kept.append(loss)", True),
        ("self.kept.append(loss)", True),
        ("trainer.state.kept.add(loss)", True),
        ("kept[step] = loss", True),
        ("kept += [loss]", True),
        ("if step: kept.extend(loss for loss in losses)", True),
        ("kept = []", False),
        ("other.append(kept)", False),
        ("kept[0].append(loss)", False),
        ("kept.clear()", False),
        ("print(kept[0])", False),
        ("def kept(:", False),  # no Python
    ],
)
def test_lines_that_add_to_a_name_are_found(line, adds, tmp_path):
    file = tmp_path / "train.py"
    file.write_text(f"import math\n{line}\n")
    assert find_additions(str(file), "kept") == ([2] if adds else [])
    assert find_additions(str(tmp_path / "nowhere.py"), "kept") == []
