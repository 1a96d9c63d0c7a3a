"""Article B, the norm of the 3-D case."""

import json

import jittor as jt

norm = jt.nn.VolumeBatchNorm3d(8)
print(json.dumps({"channels": norm(jt.rand(1, 8, 4, 4, 4)).shape[1]}))
