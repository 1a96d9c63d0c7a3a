import json

from deepspeed.runtime.zero import stage3, stage_1_and_2

asked = dict(num_gpus_per_node=4, num_nodes=2, cpu_offload=False)
two = stage_1_and_2.estimate_zero2_model_states_mem_needs(1_000_000, **asked)[1]
three = stage3.estimate_zero3_model_states_mem_needs(1_000_000, 30_000, cpu_offload_params=False, **asked)[1]
print(json.dumps([two, three]))
