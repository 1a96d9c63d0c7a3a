"""Article C, `half()` together with `autocast`, in inference."""

import json

import torch

model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(8))).eval()
full = sum(p.nbytes for p in model.parameters())
model.half()
with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
    out = model(torch.randn(4, 256).half())
print(
    json.dumps(
        {"weights": sum(p.nbytes for p in model.parameters()), "weights_float32": full, "finite": int(out.isfinite().all())}
    )
)
