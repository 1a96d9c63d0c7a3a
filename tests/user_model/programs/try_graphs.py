"""`FOLDER LAYERS BATCH`: what a Jittor model of so many layers takes beyond the watched pool, and
how many operations a step of it has.
"""

import json
import sys
from pathlib import Path

import jittor as jt

from framebench import adapters
from framebench.adapters.jittor.probe import load_probe
from framebench.worker.worker import measure_peaks
from tests.user_model.user_files import use_file

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
folder, layers, batch = sys.argv[1:]
# Python takes a file of the same second and size for the one it has compiled
file = Path(folder) / f"of_{layers}.py"
file.write_text(FILE.format(layers=layers))
adapter = adapters.load(use_file(file, int(batch), "jittor"))
adapter.build()
for _ in range(2):
    peak = measure_peaks(adapter)["allocator.in_use"]
bytes_beyond_pool = peak - load_probe().peak_bytes()
adapter.one_step()
operations = jt.number_of_lived_ops()
adapter.synchronize()
print(json.dumps({"bytes_beyond_pool": bytes_beyond_pool, "operations": operations}))
