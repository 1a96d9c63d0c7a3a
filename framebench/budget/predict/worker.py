"""Predict the eager peak of a PyTorch case without computing it, in PyTorch's environment.

It is run by `python -m framebench.budget.predict.worker CASE`. The adapter's own steps run on fake
tensors, which have shapes but no numbers (`make_fake_mode`), while every storage that an operator
makes is counted from its birth to its death. So any size can be predicted on any machine. Not
counted is what kernels use inside themselves (oneDNN's reordered copies; the unrolled volume, 27
times the input, of a 3-D convolution of a single sample), nor what the allocator adds.
`hypothetical.explain_unpredictable` says which cases have no such prediction.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from typing import Any

from framebench.adapters.torch.fake import FakeAdapter
from framebench.adapters.torch.fake_bitsandbytes import plain_4bit_weights
from framebench.adapters.torch.fake_mode import make_fake_mode
from framebench.adapters.torch.fake_modules import convertible_modules
from framebench.adapters.torch.fake_numbers import KnownNumbers
from framebench.adapters.torch.storages import Storages
from framebench.models.spec import USER_MODEL
from framebench.suite.case import Case
from framebench.suite.hypothetical import parse_any_batch
from framebench.suite.user_file import (
    describe_error,
    describe_fault,
    find_line,
    import_packages,
)


def predict_step_bytes(case: Case) -> dict[str, int]:
    """Return `live_bytes`, alive between two steps, and `predicted`, the peak of the second step.

    The optimizer has its states from the second step on.
    """
    if case.workload == USER_MODEL:
        import_packages(case.user_file)  # with numbers, as they may compute tables of them
    modes = (make_fake_mode(), KnownNumbers(), convertible_modules(), plain_4bit_weights())
    with ExitStack() as stack:
        for mode in modes:
            stack.enter_context(mode)
        storages = stack.enter_context(Storages())
        adapter = FakeAdapter(case)
        adapter.build()
        adapter.step()
        adapter.release()
        live = storages.alive
        storages.peak = live
        adapter.step()
    return {"live_bytes": live, "predicted": storages.peak}


def predict_or_explain(case: Case) -> dict[str, Any]:
    """Return the predicted bytes, or the `fault` of a user's file that cannot be predicted."""
    try:
        return predict_step_bytes(case)
    except Exception as error:
        if case.workload != USER_MODEL:
            raise
        if find_line(error, case.user_file):
            return {"fault": describe_fault(error, case.user_file)}
        return {"fault": describe_error(error)}


if __name__ == "__main__":
    print(json.dumps(predict_or_explain(parse_any_batch(sys.argv[1]))))
