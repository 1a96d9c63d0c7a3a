"""Print what is said of a prediction where PyTorch has no tracker of FSDP's memory."""

import json
import sys

import torch.distributed._tools.fsdp2_mem_tracker as tools

from framebench.adapters.base import RanksUnavailable
from framebench.ranks import torch_predicted
from framebench.ranks.cases import parse_rank_case

del tools.FSDPMemTracker
try:
    torch_predicted.predict_rank_bytes(parse_rank_case(sys.argv[1]))
except RanksUnavailable as error:
    print(json.dumps(str(error)))
