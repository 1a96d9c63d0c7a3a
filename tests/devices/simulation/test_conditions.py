"""Which answer lets a check in a program pass."""

import pytest

from framebench.devices.simulation.conditions import find_answer


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("if x > 1:\n    raise ValueError", False),
        ("if not x:\n    raise ValueError", True),
        ("assert x", True),
        ("assert not x", False),
        ("if x:\n    y = 1", None),
        ("y = x", None),
    ],
)
def test_the_answer_is_that_of_the_check_in_the_line(tmp_path, code, answer):
    file = tmp_path / "program.py"
    file.write_text(code)
    assert find_answer(str(file), 1) is answer


def test_a_check_over_several_lines_is_found_in_each_and_not_after_it(tmp_path):
    file = tmp_path / "program.py"
    file.write_text("if (\n    x\n    or y\n):\n    raise ValueError\nz = 1\n")
    passes_if_false, no_check = False, None
    answers = [find_answer(str(file), line) for line in (2, 3, 6)]
    assert answers == [passes_if_false, passes_if_false, no_check]


def test_code_outside_files_has_no_answer():
    assert find_answer("<string>", 1) is None
