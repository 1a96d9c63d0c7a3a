"""A rank of a case whose strategy divides nothing, though all its numbers are right: what
`worker.ranks` starts, with PyTorch's `fully_shard`, DeepSpeed's stage or JAX's division undone
before. Devices of JAX that should be in processes of their own are in this one.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from framebench.ranks import worker as ranks
from framebench.suite.case import Case
from framebench.suite.selectors import parse
from framebench.worker.worker import serve


def undo(case: Case) -> None:
    if case.support.package == "deepspeed":
        from framebench.adapters.torch import deepspeed

        attach = deepspeed.attach_engine
        deepspeed.attach_engine = lambda run, stage: attach(run, 0)
    elif case.framework == "torch":
        import torch.distributed.fsdp
        from torch.distributed._composable.replicate import replicate

        def fully_shard(module: Any, **options: Any) -> Any:
            return replicate(module) if hasattr(module, "blocks") else module

        torch.distributed.fsdp.fully_shard = fully_shard
    elif "processes" not in case.strategy:
        from framebench.adapters.jax import ranks as ours

        ours.shard_longest_axis = lambda mesh, shape: ours.NamedSharding(mesh, ours.PartitionSpec())


if __name__ == "__main__":
    undo(parse(json.loads(sys.argv[1])["case"]))
    serve(ranks.carry_out)
