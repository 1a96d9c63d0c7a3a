"""Print DeepSpeed's own estimates for 8 GPUs: of its stages 2 and 3, for a million parameters."""

import json

from deepspeed.runtime.zero import stage3, stage_1_and_2

GPUS = {"num_gpus_per_node": 4, "num_nodes": 2, "cpu_offload": False}
PARAMETERS = 1_000_000
LARGEST_LAYER = 30_000

# each returns the bytes of the host, then those of a GPU
stage_2 = stage_1_and_2.estimate_zero2_model_states_mem_needs(PARAMETERS, **GPUS)
stage_3 = stage3.estimate_zero3_model_states_mem_needs(
    PARAMETERS, LARGEST_LAYER, cpu_offload_params=False, **GPUS
)
print(json.dumps([stage_2[1], stage_3[1]]))
