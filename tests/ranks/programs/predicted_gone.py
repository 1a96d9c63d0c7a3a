import json
import sys

import torch.distributed._tools.fsdp2_mem_tracker as tools

from framebench.ranks import torch_predicted as predicted_rank
from framebench.ranks.cases import over_ranks

del tools.FSDPMemTracker
try:
    predicted_rank.predict(over_ranks(sys.argv[1]))
except predicted_rank.Gone as error:
    print(json.dumps(str(error)))
