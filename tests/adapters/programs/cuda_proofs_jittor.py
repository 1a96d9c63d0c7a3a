import contextlib
import json
from types import SimpleNamespace

import jittor as jt

from framebench.adapters.jittor import SWITCHES, memory, precision, steps


class OnCard:
    # Jittor as it is, but for what a build for CUDA has more of
    flags, cudnn = SimpleNamespace(use_cuda=1, use_tensorcore=0), None

    def __getattr__(self, name):
        return getattr(jt, name)


here = steps.jt = precision.jt = OnCard()
nn = steps.nn = precision.nn = SimpleNamespace(**vars(jt.nn))
found, single = {}, {"variable_dtypes": {"float32": 3, "int32": 1}}


def rounding(*names):
    # TensorFloat-32: 1 + 2**-12 becomes 1
    def rounds(multiply):
        return lambda a, b: multiply(a.round(), b.round())

    here.matmul = rounds(jt.matmul) if "product" in names else jt.matmul
    nn.conv2d = rounds(jt.nn.conv2d) if "convolution" in names else jt.nn.conv2d
    return [SWITCHES[name](None).judge(single).proven for name in ("fp32", "tf32")]


for names in ((), ("product", "convolution"), ("convolution",), ("product",)):
    found[" ".join(("rounding", *names))] = rounding(*names)


class Algorithms:
    # cudnn_conv3d_op.cc: a shape that was not met is tried out while the table has room; that it is full then is logged
    def __init__(self, obeyed):
        self.obeyed, self.room, self.tried, self.said = obeyed, 100, 0, []

    def set_algorithm_cache_size(self, room):
        if self.room != 100 or self.obeyed:
            self.room = room

    def convolve(self, x, w):
        if self.tried < self.room:
            self.tried += 1
            self.said += [{"msg": "forward_ algorithm cache is full"}] * (self.tried == self.room)
        return jt.zeros(1)


for name, obeyed in (("untried", True), ("untried, ignored", False)):
    here.cudnn = table = Algorithms(obeyed)
    here.log_capture_scope = lambda table=table: contextlib.nullcontext(table.said)
    nn.conv3d = table.convolve
    proof = SWITCHES["autotune_off"](None)
    for _ in range(3):
        table.convolve(None, None)
    table.obeyed = True
    found[name] = proof.judge({}).proven

for source in ("cuda_managed", "cuda_device"):
    memory.probe = lambda source=source: SimpleNamespace(source=lambda: source)
    found[source] = SWITCHES["managed_allocator"](None).judge({}).proven

here.flags = jt.flags
run = SimpleNamespace(model=SimpleNamespace(parameters=lambda: []))
for level in (3, 4, 5, 6):
    seen = {"variable_dtypes": {"float16" if level > 3 else "float32": 1}}
    proof = SWITCHES["amp_level"](run, level)
    found[f"level {level}"] = [proof.judge(seen).proven]
    for other in (0, 9 - level):
        jt.flags.amp_level = other
        found[f"level {level}"].append(proof.judge(seen).proven)
print(json.dumps(found))
