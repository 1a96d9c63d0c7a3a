"""Judge proofs of Jittor's strategies for GPUs, with what a build for CUDA has more of imitated."""

import contextlib
import json
from types import SimpleNamespace
from unittest.mock import Mock

import jittor as jt

from framebench.adapters.jittor import SWITCHES, precision, steps


class JittorOnGpu:
    """Jittor as it is, but for its flags and what a test replaces."""

    flags = SimpleNamespace(use_cuda=1, use_tensorcore=0)
    cudnn = None

    def __getattr__(self, name):
        return getattr(jt, name)


gpu_jt = steps.jt = precision.jt = JittorOnGpu()
gpu_nn = steps.nn = precision.nn = SimpleNamespace(**vars(jt.nn))


def round_operands(multiply):
    """Return a product as TensorFloat-32 makes it: 1 + 2**-12 becomes 1."""

    def multiply_rounded(a, b):
        return multiply(a.round(), b.round())

    return multiply_rounded


def judge_precisions(*rounded):
    """Return whether each precision is proven where these products are rounded."""
    gpu_jt.matmul = jt.matmul
    gpu_nn.conv2d = jt.nn.conv2d
    if "product" in rounded:
        gpu_jt.matmul = round_operands(jt.matmul)
    if "convolution" in rounded:
        gpu_nn.conv2d = round_operands(jt.nn.conv2d)
    evidence = {"variable_dtypes": {"float32": 3, "int32": 1}}
    return {name: SWITCHES[name](None).judge(evidence).proven for name in ("fp32", "tf32")}


class AlgorithmTable:
    """The table of algorithms that cuDNN was tried with, as in cudnn_conv3d_op.cc.

    A shape that is new is tried out while the table has room; that it is full then is logged.
    """

    def __init__(self):
        self.ignores_size = False
        self.room = 100
        self.tried = 0
        self.log = []

    def set_algorithm_cache_size(self, room):
        if not self.ignores_size:
            self.room = room

    def convolve(self, x, w):
        if self.tried < self.room:
            self.tried += 1
            if self.tried == self.room:
                self.log.append({"msg": "forward_ algorithm cache is full"})
        return jt.zeros(1)


def judge_autotune_off(is_ignored):
    """Return whether `autotune_off` is proven, also if its setting had been ignored in steps."""
    table = AlgorithmTable()
    gpu_jt.cudnn = table
    gpu_jt.log_capture_scope = Mock(return_value=contextlib.nullcontext(table.log))
    gpu_nn.conv3d = table.convolve
    table.ignores_size = is_ignored
    proof = SWITCHES["autotune_off"](None)
    for _step in range(3):
        table.convolve(None, None)
    table.ignores_size = False
    return proof.judge({}).proven


def judge_amp_level(level):
    """Return whether a level is proven: as it was set, and with others in its place."""
    adapter = SimpleNamespace(model=SimpleNamespace(parameters=Mock(return_value=[])))
    evidence = {"variable_dtypes": {"float16" if level > 3 else "float32": 1}}
    proof = SWITCHES["amp_level"](adapter, level)
    as_set = proof.judge(evidence).proven
    replaced = []
    for other in (0, 9 - level):
        jt.flags.amp_level = other
        replaced.append(proof.judge(evidence).proven)
    return {"as it was set": as_set, "replaced": any(replaced)}


answer = {
    "rounding": judge_precisions(),
    "rounding product convolution": judge_precisions("product", "convolution"),
    "rounding convolution": judge_precisions("convolution"),
    "rounding product": judge_precisions("product"),
    "untried": judge_autotune_off(is_ignored=False),
    "untried, ignored": judge_autotune_off(is_ignored=True),
}
gpu_jt.flags = jt.flags
for level in (3, 4, 5, 6):
    answer[f"level {level}"] = judge_amp_level(level)
print(json.dumps(answer))
