"""A step on tensors without numbers fails in a reader's words:

PyTorch speaks of its fake tensors, and of backends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from framebench.adapters.user_functions import describe_type
from framebench.suite.user_file import describe_fault
from framebench.suite.without_numbers import describe_error


class DataDependentOutputException(RuntimeError):
    """Has PyTorch's name."""


@dataclass
class Device:
    type: str


@dataclass
class Array:
    device: Device


def raised(error: Exception, **local: Any) -> Exception:
    """The error, from a line that has such variables."""
    try:
        exec("raise error", {}, {"error": error, **local})
    except Exception as caught:
        return caught
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            DataDependentOutputException("aten._local_scalar_dense.default"),
            "the values of a tensor are read here",
        ),
        (
            RuntimeError(".numpy() is not supported for tensor subclasses."),
            "the values of a tensor are read here",
        ),
        (
            TypeError("unsupported operand: 'FakeTensor' and 'str'"),
            "TypeError: unsupported operand: 'Tensor' and 'str'",
        ),
        (ValueError("plain"), "ValueError: plain"),
    ],
)
def test_no_stand_in_is_named(error: Exception, told: str) -> None:
    message = describe_error(error, None)
    assert message.startswith(told)
    assert "Fake" not in message
    assert "aten" not in message


def test_tensors_on_two_devices_are_named_with_the_way_out() -> None:
    error = RuntimeError(
        "Expected all tensors to be on the same device, but found at least two "
        "devices, gpu:0 and cpu!"
    )
    caught = raised(error, table=Array(Device("cpu")), x=Array(Device("gpu")), width=4)
    message = describe_fault(caught, "<string>")
    assert "`table` on the CPU and `x` on the GPU" in message
    assert message.endswith("Make them with device=x.device")
    assert "device of the inputs" in describe_error(error, None), (
        "where no line of the file is known"
    )


def test_a_pretended_tensor_is_called_a_tensor() -> None:
    plain = type("Tensor", (), {"__module__": "torch"})
    assert (
        describe_type(
            type("FakeTensor", (plain,), {"__module__": "torch._subclasses.fake_tensor"})()
        )
        == "torch.Tensor"
    )
    assert describe_type([]) == "list"
