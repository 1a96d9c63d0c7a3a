import sys
from pathlib import Path

from framebench.engine import blocks, environments
from framebench.suite.selectors import parse
from tests.single_case import measure_alone

told = blocks.Listener()
told.phase = lambda case, what: print(what, flush=True)
measure_alone(
    parse("transformer/torch/train/fp32/b8/cpu"),
    "s",
    environments.describe("torch"),
    blocks.Options(rounds=1000),
    Path(sys.argv[1]),
    told,
)
