import json

import torch

from framebench.instruments.host import HostPeak

peak = HostPeak()
peak.start()
a = torch.ones(256 * 2**20 // 4)
b = a * 2
del a, b
print(json.dumps(peak.measure_growth()))
