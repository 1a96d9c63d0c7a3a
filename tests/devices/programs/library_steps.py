"""Simulate steps as training repositories write them, by the public library.

Printed as JSON, by the name of the function that makes a step, or by what was asked of it.
"""

import json
import sys
import traceback

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from framebench.devices import DoesNotFit, simulate
from tests.devices.programs.training import make_training_step

WIDTH = 1024
ROWS = 64
MATRICES = 8


def make_linear_step(device):
    """Train a linear layer without a bias, and read the loss in each step as a logger does."""
    model = nn.Linear(WIDTH, WIDTH, bias=False).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(ROWS, WIDTH, device=device)
    losses = []

    def step():
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    return step


def make_frozen_step(device):
    """Train a small layer on the output of a frozen one."""
    frozen = nn.Linear(WIDTH, WIDTH, bias=False).requires_grad_(False)
    trained = nn.Linear(WIDTH, 16, bias=False)
    model = nn.Sequential(frozen, trained).to(device)
    return make_training_step(model, torch.randn(ROWS, WIDTH, device=device))


def make_converted_step(device):
    """Train convolutions that are converted to bfloat16 and channels_last after they were made."""
    model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3, bias=False))
    model = model.to(device).to(torch.bfloat16).to(memory_format=torch.channels_last)
    batch = torch.randn(4, 3, 32, 32, device=device, dtype=torch.bfloat16)
    return lambda: model(batch).float().mean().backward()


def make_scaled_step(device):
    """Train in float16 with autocast, a gradient scaler and clipping."""
    model = nn.Linear(WIDTH, WIDTH).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    batch = torch.randn(ROWS, WIDTH, device=device)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = model(batch).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    return step


def make_resampled_step(device):
    """Train weights that the program draws again until all are within bounds."""
    weights = torch.randn(WIDTH, device=device)
    while (weights.abs() > 2).any():
        weights = torch.where(weights.abs() > 2, torch.randn_like(weights), weights)
    weights.requires_grad_()
    return lambda: weights.square().sum().backward()


def make_truncated_step(device):
    """Train weights that `nn.init` draws until all are within bounds, by each of its two ways."""
    weights = torch.empty(WIDTH, device=device)
    nn.init.trunc_normal_(weights)
    nn.init.trunc_normal_(weights, a=3.0, b=4.0)
    weights.requires_grad_()
    return lambda: weights.square().sum().backward()


def make_deciding_step(device):
    """Check the numbers of a batch, and make a matrix if one of them is positive."""
    batch = torch.randn(ROWS, device=device)
    matrices = []

    def step():
        matrices.clear()
        if batch.max() > 100:
            raise ValueError("too large")
        if not (batch < 100).all():
            raise ValueError("too large")
        assert (batch < 100).all()
        if (batch > 0).any():
            matrices.append(torch.zeros(WIDTH, WIDTH, device=device))

    return step


def make_computed_step(device):
    """Train layers whose widths are computed by tensors, as in torchvision's RegNet."""
    widths = (torch.linspace(1, 4, 4) * 256).round().int().tolist()
    layers = [nn.Linear(*pair, bias=False) for pair in zip(widths, widths[1:])]
    model = nn.Sequential(*layers).to(device)
    batch = torch.randn(ROWS, widths[0], device=device)
    return lambda: model(batch).sum().backward()


def make_counting_step(device):
    """Make a matrix in every third step, which a counter on the device counts."""
    counter = torch.tensor(0).to(device)
    matrices = []

    def step():
        counter.add_(1)
        matrices.clear()
        if counter.item() % 3 == 0:
            matrices.append(torch.zeros(WIDTH, WIDTH, device=device))

    return step


def read_numbers():
    """Return numbers that a program reads after it has written into tensors."""
    numbers = {}

    def make_step(device):
        values = torch.zeros(3)
        values[1] = 5
        values[1:] += 1
        numbers["written through a view"] = values.tolist()
        values.copy_(torch.rand(3))
        numbers["overwritten at random"] = values.tolist()
        numbers["uninitialized"] = torch.empty(2).tolist()
        numbers["resized"] = torch.zeros(1).resize_(2).tolist()
        numbers["from NumPy"] = torch.from_numpy(np.arange(3)).mul(2).tolist()
        starts = torch.randint(3, 9, (2,))
        numbers["drawn on the host"] = [values[start - 3 : start].tolist() for start in starts]
        numbers["drawn by uniform_"] = torch.empty(1).uniform_(0.0, 3.0).tolist()
        numbers["of a permutation"] = torch.randperm(3).tolist()
        numbers["drawn and moved to the GPU"] = torch.randint(0, 9, (2,)).to(device).tolist()
        numbers["of a detached parameter"] = nn.Parameter(torch.ones(2)).detach().tolist()
        batch = torch.randn(ROWS, WIDTH, device=device)
        numbers["of a batch"] = (batch.sum() * torch.tensor(2.0, device=device)).item()
        return lambda: batch * 2

    simulate(make_step, "a100-40gb")
    return numbers


def make_unsized_step(device):
    """Train a recurrent layer on texts whose lengths lie on the GPU, and look for unique values."""
    layer = nn.GRU(8, 8, batch_first=True).to(device)
    batch = torch.randn(4, 16, 8, device=device)
    lengths = torch.randint(1, 16, (4,), device=device)

    def step():
        lengths.unique()
        packed = nn.utils.rnn.pack_padded_sequence(
            batch, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        out, _ = layer(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        padded.sum().backward()

    return step


def make_repeating_step(device):
    """Repeat each row as often as a value says."""
    batch = torch.randn(4, WIDTH, device=device)
    times = torch.randint(1, 16, (4,), device=device)
    return lambda: batch.repeat_interleave(times, dim=0)


def make_choosing_step(device):
    """Train on rows chosen by a mask and by its indices, and on chosen elements."""
    model = nn.Linear(WIDTH, WIDTH, bias=False).to(device)
    batch = torch.randn(WIDTH, WIDTH, device=device)

    def step():
        model.zero_grad()
        mask = batch[:, 0] > 0
        (places,) = torch.where(mask)
        loss = model(batch[mask]).sum() + model(batch[places]).sum()
        chosen = batch.masked_select(batch > 0)
        (loss + chosen.sum()).backward()

    return step


def make_streamed_step(device):
    """Copy matrices to the host on another stream, and drop each once its copy began."""
    to_host = torch.cuda.Stream()

    def step():
        for _ in range(MATRICES):
            matrix = torch.randn(WIDTH, WIDTH, device=device)
            to_host.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(to_host):
                matrix.to("cpu", non_blocking=True)
            matrix.record_stream(to_host)

    return step


def make_recorded_step(device):
    """Record the stream that the memory was allocated on, for which nothing has to wait."""
    batch = torch.randn(ROWS, WIDTH, device=device)
    return lambda: (batch * 2).record_stream(torch.cuda.current_stream())


def halve_batches():
    """Return the batches that a program tries until one fits 64 MiB, and where each was too large.

    An activation of 8,192 rows takes 32 MiB.
    """
    attempts = []

    def make_step(device):
        model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).to(device)

        def try_rows(rows):
            attempts.append([rows, "forward"])
            loss = model(torch.randn(rows, WIDTH, device=device)).sum()
            attempts[-1][1] = "backward"
            loss.backward()
            attempts[-1][1] = "none"

        def step():
            for rows in (8192, 2560, 1024):
                model.zero_grad()
                try:
                    try_rows(rows)
                    break
                except RuntimeError as error:  # as accelerate recognizes it
                    if "CUDA out of memory." not in error.args[0]:
                        raise
                torch.cuda.empty_cache()

        return step

    simulation = simulate(make_step, "a100-40gb", limit=64 << 20)
    return {
        "attempts": attempts,
        "reserved": simulation.reserved,
        "allocated": simulation.allocated,
        "kinds": simulation.kinds,
    }


class FailingDerivative(torch.autograd.Function):
    """A function whose derivative fails."""

    @staticmethod
    def forward(ctx, values):
        return values.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("no derivative")


def fail_in_hook(gradient):
    return gradient.reshape(7)


def fail_in_backward():
    """Return the errors of backward passes, each with the innermost line of this file."""
    failures = {}
    for place in ("derivative", "hook"):

        def make_step(device, place=place):
            model = nn.Linear(WIDTH, WIDTH).to(device)

            def step():
                out = model(torch.randn(ROWS, WIDTH, device=device))
                if place == "derivative":
                    out = FailingDerivative.apply(out)
                else:
                    out.register_hook(fail_in_hook)
                out.sum().backward()

            return step

        try:
            simulate(make_step, "a100-40gb")
        except (ValueError, RuntimeError) as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.line for frame in frames if frame.filename == __file__]
            failures[place] = [str(error), lines[-1]]
    return failures


def make_recurrent_step(device):
    """Train two layers of LSTM, which a GPU runs in cuDNN."""
    model = nn.LSTM(64, 64, num_layers=2, batch_first=True).to(device)
    batch = torch.randn(ROWS, 16, 64, device=device)
    return lambda: model(batch)[0].sum().backward()


def make_cell_step(device):
    """Train a cell of an LSTM, which PyTorch runs in its own kernel on a GPU too."""
    model = nn.LSTMCell(64, 64).to(device)
    batch = torch.randn(ROWS, 64, device=device)
    return lambda: model(batch)[0].sum().backward()


def make_decorated_step(device):
    """Decorate a function by torch.compile and never call it, as some packages do."""

    @torch.compile(dynamic=False)
    def never_called(values):
        return values + 1

    batch = torch.randn(ROWS, WIDTH, device=device, requires_grad=True)
    return lambda: (batch * 2).sum().backward()


def make_logging_step(device):
    """Print, average, compare, check and save numbers, as training scripts do."""
    model = nn.Linear(WIDTH, WIDTH, bias=False).to(device)
    batch = torch.randn(ROWS, WIDTH, device=device)
    history = []

    def step():
        mean = model(batch)
        loss = F.gaussian_nll_loss(mean, batch, mean.exp())  # PyTorch checks the variance
        loss.backward()
        history.append(loss.detach().cpu().numpy())
        is_best = not torch.allclose(loss, batch.mean())
        print(f"loss {loss:.3f}, mean {np.mean(history):.3f} {is_best}", file=sys.stderr)
        torch.save(model.state_dict(), "/no/such/folder/best.pt")

    return step


def make_packed_step(device):
    """Train a GRU on packed sequences of known lengths."""
    model = nn.GRU(WIDTH, WIDTH).to(device)
    batch = torch.randn(16, 3, WIDTH, device=device)
    lengths = torch.tensor([16, 9, 4])

    def step():
        packed = pack_padded_sequence(batch, lengths)
        padded, _ = pad_packed_sequence(model(packed)[0])
        padded.sum().backward()

    return step


def make_ctc_step(device):
    """Train with the loss of speech recognition, whose lengths lie on the host."""
    scores = nn.Parameter(torch.randn(50, 8, 20, device=device))
    words = torch.randint(1, 20, (8, 10), device=device)

    def step():
        lengths = torch.full((8,), 50), torch.full((8,), 10)
        F.ctc_loss(scores.log_softmax(-1), words, *lengths).backward()

    return step


def make_forward_mode_step(device):
    """Differentiate a layer in forward mode, where its weight has no tangent, and backwards."""
    model = nn.Linear(WIDTH, WIDTH).to(device)
    batch = torch.randn(ROWS, WIDTH, device=device)

    def step():
        model.zero_grad()
        time, one = torch.tensor(0.5, device=device), torch.tensor(1.0, device=device)
        out, tangent = torch.func.jvp(lambda time: model(batch * time), (time,), (one,))
        (out.sum() + tangent.sum()).backward()

    return step


def make_sparse_step(device):
    """Multiply by a sparse matrix, as networks on graphs do."""
    places = torch.randint(WIDTH, (2, 4 * WIDTH), device=device)
    graph = torch.sparse_coo_tensor(places, torch.ones(4 * WIDTH, device=device))
    values = torch.randn(WIDTH, ROWS, device=device)
    return lambda: torch.sparse.mm(graph, values)


def make_sparse_buffer_step(device):
    """Train a model with a sparse buffer that the step does not read, as Whisper has one."""
    model = nn.Linear(WIDTH, WIDTH, bias=False)
    model.register_buffer("mask", torch.eye(8, dtype=torch.bool).to_sparse(), persistent=False)
    return make_training_step(model.to(device), torch.randn(ROWS, WIDTH, device=device))


def make_sparse_embedding_step(device):
    """Train an embedding with sparse gradients."""
    words = nn.Embedding(WIDTH, 64, sparse=True).to(device)
    batch = torch.zeros(ROWS, dtype=torch.long, device=device)
    return lambda: words(batch).sum().backward()


def make_nested_step(device):
    """Train attention within three texts of 50, 30 and 16 words in one nested tensor."""
    texts = nn.Parameter(torch.randn(96, 4, 64, device=device, dtype=torch.bfloat16))
    offsets = torch.tensor([0, 50, 80, 96], device=device)

    def step():
        texts.grad = None
        nested = torch.nested.nested_tensor_from_jagged(texts, offsets).transpose(1, 2)
        out = F.scaled_dot_product_attention(nested, nested, nested)
        out.transpose(1, 2).values().sum().backward()

    return step


def make_flex_step(device):
    """Call flex attention, which PyTorch is not asked to compile."""
    query = torch.randn(1, 4, 256, 64, device=device)
    return lambda: flex_attention(query, query, query)


def make_lbfgs_step(device):
    """Train by L-BFGS, which computes the loss as often as its values ask for."""
    model = nn.Linear(WIDTH, WIDTH).to(device)
    batch = torch.randn(ROWS, WIDTH, device=device)
    optimizer = torch.optim.LBFGS(model.parameters())

    def compute_loss():
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        return loss

    return lambda: optimizer.step(compute_loss)


STEPS = [
    make_linear_step,
    make_frozen_step,
    make_converted_step,
    make_scaled_step,
    make_resampled_step,
    make_truncated_step,
    make_deciding_step,
    make_computed_step,
    make_counting_step,
    make_choosing_step,
    make_unsized_step,
    make_streamed_step,
    make_recorded_step,
    make_recurrent_step,
    make_cell_step,
    make_decorated_step,
    make_logging_step,
    make_packed_step,
    make_ctc_step,
    make_forward_mode_step,
    make_sparse_step,
    make_sparse_buffer_step,
    make_sparse_embedding_step,
    make_nested_step,
    make_flex_step,
    make_lbfgs_step,
]


def simulate_on_a100(make_step, **options):
    """Return what tests read of a simulation, or the message where the step is not simulated."""
    try:
        simulation = simulate(make_step, "a100-40gb", **options)
    except (DoesNotFit, NotImplementedError) as error:
        return str(error)
    fields = ("allocated", "reserved", "needs", "kind", "kinds", "timeline")
    answer = {name: getattr(simulation, name) for name in fields}
    return answer | {"holders": [holder._asdict() for holder in simulation.holders]}


answers = {make_step.__name__: simulate_on_a100(make_step) for make_step in STEPS}
answers |= {
    "no element chosen": simulate_on_a100(make_choosing_step, chosen="none"),
    "all elements chosen": simulate_on_a100(make_choosing_step, chosen="all"),
    "shortest texts": simulate_on_a100(make_unsized_step, chosen="none"),
    "longest texts": simulate_on_a100(make_unsized_step, chosen="all"),
    "results without a bound": simulate_on_a100(make_repeating_step, chosen="all"),
    "other streams done": simulate_on_a100(make_streamed_step, other_streams="done"),
    "other streams waiting": simulate_on_a100(make_streamed_step, other_streams="waiting"),
    "batches tried": halve_batches(),
    "errors of backward passes": fail_in_backward(),
    "expandable segments": simulate_on_a100(make_linear_step, expandable_segments=True),
    "numbers read": read_numbers(),
}
print(json.dumps(answers))
