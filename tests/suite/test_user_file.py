"""What is asked of a user's file before it runs, and what is said when it fails."""

from __future__ import annotations

import os
import sys

import pytest

from framebench.suite.user_file import (
    describe_error,
    describe_fault,
    import_packages,
    list_imports,
)
from tests.processes import framebench


def test_packages_are_imported_but_not_modules_beside_the_file(tmp_path, monkeypatch):
    """What a package takes for itself is none of the file's; what a module beside it holds is."""
    (tmp_path / "a_package.py").write_text("")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "beside_it.py").write_text("raise AssertionError\n")
    file = folder / "model.py"
    file.write_text(
        "import beside_it\nimport no_such_package\nfrom a_package import late\n"
        "RAN = sys.never_imported\ndef model():\n    import within_a_function\n"
    )
    monkeypatch.setattr(sys, "path", [str(folder), str(tmp_path), *sys.path])
    import_packages(str(file))
    assert "a_package" in sys.modules
    assert "beside_it" not in sys.modules
    names = {"beside_it", "no_such_package", "a_package", "within_a_function"}
    assert list_imports(str(file)) == names
    monkeypatch.delitem(sys.modules, "a_package")


def test_an_error_in_a_file_names_its_line_and_calls_a_fake_tensor_a_tensor():
    error = TypeError("unsupported operand: 'FakeTensor' and 'str'")
    with pytest.raises(TypeError) as raised:
        exec("raise error", {}, {"error": error})
    expected = "<string>:1: TypeError: unsupported operand: 'Tensor' and 'str'"
    assert describe_fault(raised.value, "<string>") == expected


@pytest.mark.parametrize(
    "name", ["DataDependentOutputException", "DynamicOutputShapeException", "RuntimeError"]
)
def test_reading_values_of_a_fake_tensor_is_explained(name):
    message = ".numpy() is not supported for tensor subclasses" if name == "RuntimeError" else ""
    error = type(name, (RuntimeError,), {})(message)
    assert describe_error(error).startswith("the values of a tensor are read here")


def test_tensors_on_two_devices_are_explained_with_a_hint():
    error = RuntimeError("Expected all tensors ... found at least two devices, gpu:0 and cpu!")
    assert "Make all of them with device=x.device" in describe_error(error)


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (AssertionError("Torch not compiled with CUDA enabled"), "device=x.device"),
        (RuntimeError("PyTorch is not linked with support for cuda devices"), "device=x.device"),
        (RuntimeError("Found no NVIDIA driver on your system."), "device=x.device"),
        (
            OSError("We couldn't connect to 'https://huggingface.co' to load the files"),
            "from its configuration",
        ),
        (
            FileNotFoundError("to locate the file on the Hub and we cannot find it in the cache"),
            "from its configuration",
        ),
    ],
    ids=["no CUDA", "not linked", "no driver", "no connection", "not in the cache"],
)
def test_a_gpu_or_a_download_that_is_not_there_is_explained_with_a_hint(error, hint):
    assert hint in describe_error(error)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("command", ["try {file}", "grow {file}", "max-batch {file} --budget 1GiB"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(command, tmp_path):
    file = tmp_path / "model.py"
    os.mkfifo(file)
    done = framebench(*command.format(file=file).split(), code=2)
    assert "model.py" in done.stderr
    assert "does not exist" not in done.stderr


def test_a_file_that_is_too_large_for_a_program_is_not_read(tmp_path):
    """It may be a checkpoint of many gigabytes, named by mistake."""
    file = tmp_path / "model.pt"
    with file.open("wb") as checkpoint:
        checkpoint.truncate(2**25)
    done = framebench("try", str(file), code=2)
    assert "model.pt: 33,554,432 bytes, where a Python file has at most" in done.stderr
