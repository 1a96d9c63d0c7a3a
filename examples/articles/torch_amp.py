"""Article B, mixed precision: `torch.cuda.amp.autocast` and `GradScaler`, by their older names."""

import json
import warnings

import torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    scaler = torch.cuda.amp.GradScaler()
    with torch.cuda.amp.autocast():
        loss = model(torch.randn(4, 8)).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
deprecated = sum(issubclass(one.category, FutureWarning) for one in said)
print(
    json.dumps(
        {"deprecated_names": deprecated, "loss_is_float16": int(loss.dtype == torch.float16)}
    )
)
