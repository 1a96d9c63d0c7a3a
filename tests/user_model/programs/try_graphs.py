"""`FOLDER LAYERS BATCH`: what a Jittor model of so many layers takes beyond the watched pool, and
how many operations a step of it has. Of 0 layers it is the suite's own Transformer.
"""

import json
import sys
from pathlib import Path
from typing import Any

import jittor as jt

from framebench import adapters
from framebench.adapters.jittor.probe import load_probe
from framebench.suite.case import Case
from framebench.worker.worker import measure_peaks

FILE = """
import jittor as jt
from jittor import nn

def model():
    return nn.Sequential(*[nn.Linear(8, 8) for _ in range({layers})])

def batch(n):
    return jt.randn(n, 8), jt.randn(n, 8)

def loss(output, target):
    return ((output - target) ** 2).mean()

def optimizer(parameters):
    return jt.optim.SGD(parameters, lr=1e-3)
"""
folder = Path(sys.argv[1])


def read(case: Case) -> dict[str, int]:
    adapter: Any = adapters.load(case)
    adapter.build()
    for _ in range(2):
        peak = measure_peaks(adapter)["allocator.in_use"]
    beyond = peak - load_probe().peak_bytes()
    adapter.one_step()
    operations = jt.number_of_lived_ops()
    adapter.synchronize()
    assert adapter.before_graph is None, "nothing is read while steps are timed"
    return {"beyond": beyond, "operations": operations}


layers, batch = int(sys.argv[2]), int(sys.argv[3])
if layers:
    # Python takes a file of the same second and size for the one it has compiled
    file = folder / f"of_{layers}.py"
    file.write_text(FILE.format(layers=layers))
    facts = {
        "file": str(file),
        "framework": "jittor",
        "batch": batch,
        "defined": ["loss", "optimizer"],
    }
    (folder / "own.json").write_text(json.dumps(facts))
    found = read(Case.from_id(f"own/jittor/train/fp32/b{batch}/mine"))
else:
    found = read(Case.from_id(f"transformer/jittor/train/fp32/b{batch}/tiny"))
print(json.dumps(found))
