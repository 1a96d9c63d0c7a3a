import json
import sys
import warnings

from torch import Tensor

from framebench import adapters
from framebench.adapters.torch.observe import Observed, unique_bytes
from framebench.suite.selectors import parse

warnings.simplefilter("ignore")
rows = {}
for case_id in sys.argv[1:]:
    run = adapters.load(parse(case_id))
    run.build()
    run.step()
    model, trains = run.model, run.case.stage.trains
    seen = Observed([], [])
    with seen:
        run.one_step()
    known = {
        t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers(), *run.inputs]
    }
    states = (
        [v for s in run.optimizer.state.values() for v in s.values() if isinstance(v, Tensor)]
        if trains
        else []
    )
    run.release()
    rows[case_id] = {
        "parameters": unique_bytes(model.parameters()),
        "gradients": unique_bytes(p.grad for p in model.parameters() if p.grad is not None),
        "buffers": unique_bytes(b for b in model.buffers() if b.is_floating_point()),
        "optimizer": unique_bytes(v for v in states if v.ndim > 0),
        "inputs": unique_bytes(run.inputs),
        "live": run.live_bytes(),
        "counters": unique_bytes(
            [*(v for v in states if v.ndim == 0), *(b for b in model.buffers() if b.ndim == 0)]
        ),
        "saved": sum(size for at, size in seen.saved.items() if at not in known),
    }
print(json.dumps(rows))
