"""Print what is in a user's file in PyTorch: `python -m framebench.user_file.torch_facts BATCH`.

It prints JSON: `user_model.facts`, or `{"fault": ...}`. No weight is made: all tensors are fake.
"""

from __future__ import annotations

import json
import sys

from torch._subclasses.fake_tensor import FakeTensorMode

from framebench.adapters.torch import user_model
from framebench.adapters.torch.fake_modules import convertible_modules
from framebench.adapters.torch.fake_numbers import KnownNumbers
from framebench.suite.user_file import Fault, describe_fault

if __name__ == "__main__":
    try:
        with (
            FakeTensorMode(allow_non_fake_inputs=True),
            KnownNumbers(),
            convertible_modules(),
        ):
            print(json.dumps(user_model.facts(int(sys.argv[1]))))
    except Fault as error:
        print(json.dumps({"fault": str(error)}))
    except Exception as error:
        print(json.dumps({"fault": describe_fault(error, user_model.user().file)}))
