"""Article B, whether `torch.compile` fuses kernels: those of a Transformer's block are counted.

The article prints no listing. `operators` are those of the graphs of the forward and the backward
pass that are to be compiled, without views: as many as run one after the other without the
compiler. `kernels` are what Inductor's programs of the same graphs call.
"""

import json
import re

import torch
import torch._inductor.config
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.utils import run_and_get_code

VIEWS = (
    *("view", "unsafe_view", "permute", "transpose", "t", "expand", "unsqueeze", "squeeze"),
    *("slice", "select", "split", "detach", "alias"),
)
# a call of a generated kernel, of a library's, or of an operator that is not compiled
KERNEL = re.compile(
    r"^ +(?:buf\d+ = )?(?:cpp_fused\w*|extern_kernels\.\w+|aten\.\w+|torch\.ops\.[\w.]+)\(", re.M
)
operators = 0


def count_operators(graph, inputs):
    """Count the operators of a graph that compute, and run it as it is."""
    global operators
    for node in graph.graph.nodes:
        is_operator = node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
        if is_operator and node.target.overloadpacket.__name__.strip("_") not in VIEWS:
            operators += 1
    return graph


def make_block():
    """Return a Transformer's block."""
    return torch.nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)


def make_matmuls():
    """Return a model of matmuls alone."""
    return torch.nn.Sequential(*[torch.nn.Linear(64, 64, bias=False) for _ in range(4)])


def train(make_model, backend):
    """Make a step of a model by a back end of the compiler."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    compiled = torch.compile(make_model(), backend=backend)
    compiled(torch.randn(8, 32, 64)).square().mean().backward()


def count_kernels(make_model):
    """Return how many kernels Inductor's programs of the two passes call."""
    with torch._inductor.config.patch(force_disable_caches=True):
        _, programs = run_and_get_code(train, make_model, "inductor")
    return sum(len(KERNEL.findall(program)) for program in programs)


found = {}
for ending, make_model in (("", make_block), ("_of_matmuls", make_matmuls)):
    operators = 0
    train(make_model, aot_autograd(fw_compiler=count_operators, bw_compiler=count_operators))
    found |= {f"operators{ending}": operators, f"kernels{ending}": count_kernels(make_model)}
print(json.dumps(found))
