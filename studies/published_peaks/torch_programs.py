"""The loops of the measured rows, as their authors wrote them: what a name still holds at the next
step is part of the peak.

Data is made in host memory and moved, as there. Nothing here is counted: the caller runs a loop on
a simulated card.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import transformers
from torch import Tensor, nn

from studies.published_peaks import torch_litgpt, torch_models, torch_video
from studies.published_peaks.programs import Program

Step = Callable[[], object]
Run = Callable[[Program, nn.Module, torch.device], Iterator[None]]
LEARNING_RATE = 1e-3
GATHERED = 128  # samples of one update of LitGPT's


def made(program: Program) -> Callable[[torch.device], Step]:
    """What `simulate` asks for.

    A loop is a generator that stops after each step, and before the first: so names of the last
    step are alive in the next one.
    """
    loops: dict[str, Run] = {"images": images, "text": text, "lora": lora, "video": video}
    run = loops[program.loop]
    model = torch_models.build(program.model)

    def make_step(device: torch.device) -> Step:
        steps = run(program, model.to_empty(device="cpu"), device)
        next(steps)
        return lambda: next(steps)

    return make_step


def images(program: Program, model: nn.Module, device: torch.device) -> Iterator[None]:
    """xMem's loop over CIFAR-10, resized."""
    model.to(device)
    model.train()
    optimizer = getattr(torch.optim, program.optimizer)(params=model.parameters(), lr=LEARNING_RATE)
    criterion = nn.CrossEntropyLoss()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.1)
    yield
    for inputs, labels in image_batches(program):
        if program.zero_grad == "start":
            optimizer.zero_grad()
        inputs, labels = inputs.to(device), labels.to(device)
        with torch.set_grad_enabled(True):
            outputs = model(inputs)
            loss_value = criterion(outputs, labels)
            if program.zero_grad == "before backward":
                optimizer.zero_grad()
            loss_value.backward()
            optimizer.step()
        _, preds = torch.max(outputs, 1)  # noqa: RUF059, alive during the next step
        if program.zero_grad == "end":
            optimizer.zero_grad()
        scheduler.step()
        yield


def text(program: Program, model: nn.Module, device: torch.device) -> Iterator[None]:
    """xMem's loop over lines of WikiText-2: the model's own loss, and all that it returns is kept
    until the next is there.
    """
    optimizer = getattr(torch.optim, program.optimizer)(params=model.parameters(), lr=LEARNING_RATE)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.1)
    model.to(device)
    optimizer_follows(optimizer, model)
    yield
    with with_padding():
        for batch in text_batches(program):
            if program.zero_grad == "start":
                optimizer.zero_grad()
            with torch.set_grad_enabled(True):
                batch = {k: v.to(device) for k, v in batch.items()}
                outputs = model(**batch)
                if program.zero_grad == "before backward":
                    optimizer.zero_grad()
                loss = outputs.loss
                loss.backward()
                optimizer.step()
            if program.zero_grad == "end":
                optimizer.zero_grad()
            scheduler.step()
            yield


def lora(program: Program, model: nn.Module, device: torch.device) -> Iterator[None]:
    """LitGPT's loop: the longest sample sets the length; the optimizer has the low-rank matrices
    alone.
    """
    model.to(device)
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=3e-4, weight_decay=0.01
    )
    assert isinstance(model, torch_litgpt.GPT)
    cos, sin = (torch.empty(program.length, model.turned, device=device) for _ in range(2))
    yield
    for _ in range(program.steps):
        tokens, targets = (
            torch.empty(program.batch, program.length, dtype=torch.int64, device=device)
            for _ in range(2)
        )
        # what a model returns is float32 outside: convert_output in
        # lightning/fabric/plugins/precision/half.py
        logits = [chunk.to(torch.float32) for chunk in model(tokens, cos, sin)]
        logits[-1] = logits[-1][..., :-1, :]
        loss = torch_litgpt.chunked_cross_entropy(logits, targets[..., 1:])
        (loss / GATHERED).backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def video(program: Program, model: nn.Module, device: torch.device) -> Iterator[None]:
    """Run MMAction2's loop: what a step returned is kept until the next one has returned."""
    replica = nn.parallel.DistributedDataParallel(model.to(device), broadcast_buffers=False)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, foreach=False
    )
    yield
    for _ in range(program.steps):
        clips, labels = torch_video.make_batch(program.model, program.batch, program.clip)
        loss = replica(clips.to(device), labels.to(device))
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 40, foreach=False)
        optimizer.step()
        yield


def optimizer_follows(optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
    """On a card a model keeps its parameters when it moves; without numbers they are other
    objects.
    """
    optimizer.param_groups[0]["params"] = list(model.parameters())


def image_batches(program: Program) -> Iterator[tuple[Tensor, Tensor]]:
    for _ in range(program.steps):
        side = program.length
        yield (
            torch.empty(program.batch, 3, side, side),
            torch.empty(program.batch, dtype=torch.int64),
        )


def text_batches(program: Program) -> Iterator[dict[str, Tensor]]:
    """What the collator makes of lines: labels are the tokens."""
    for _ in range(program.steps):
        yield {
            name: torch.empty(program.batch, program.length, dtype=torch.int64)
            for name in ("input_ids", "attention_mask", "labels")
        }


@contextmanager
def with_padding() -> Iterator[None]:
    """A batch has padding, which transformers asks the mask for; tensors without numbers have no
    answer.
    """
    converter = transformers.modeling_attn_mask_utils.AttentionMaskConverter
    asked = converter._ignore_causal_mask_sdpa
    converter._ignore_causal_mask_sdpa = staticmethod(lambda *_, **__: False)
    try:
        yield
    finally:
        converter._ignore_causal_mask_sdpa = staticmethod(asked)
