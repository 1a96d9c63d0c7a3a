"""Article B, mixed precision: `torch.cuda.amp.autocast` and `GradScaler`, by their older names."""

import json
import warnings

import torch
from torch.cuda.amp import GradScaler, autocast

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(8, 1).to(device)
criterion = torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dataloader = [
    (torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)) for _ in range(2)
]
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    scaler = GradScaler()
    for inputs, labels in dataloader:
        optimizer.zero_grad()
        with autocast():
            outputs = model(inputs)
            loss = criterion(outputs, labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
# a call in the loop warns at each batch
deprecated = len({str(one.message) for one in said if issubclass(one.category, FutureWarning)})
print(
    json.dumps(
        {"deprecated_names": deprecated, "loss_is_float16": int(outputs.dtype == torch.float16)}
    )
)
