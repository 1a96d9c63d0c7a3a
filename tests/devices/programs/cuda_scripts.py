"""Simulate training scripts that ask `torch.cuda` about their GPU, by the public library.

The program prints JSON. Scripts are named by the function that makes their step.
"""

import contextlib
import inspect
import json
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from framebench.devices import DoesNotFit, simulate
from tests.devices.programs.training import make_training_step

warnings.simplefilter("ignore")  # scripts use forms that PyTorch has deprecated
WIDTH = 1024
ROWS = 64
DEVICE_OF_OUTSIDE = "cuda" if torch.cuda.is_available() else "cpu"
QUESTIONS = {
    "get_device_name": lambda: torch.cuda.get_device_name(0),
    "get_device_capability": lambda: torch.cuda.get_device_capability(),
    "total_memory": lambda: torch.cuda.get_device_properties("cuda").total_memory,
    "is_bf16_supported": lambda: torch.cuda.is_bf16_supported(),
    "is_bf16_native": lambda: torch.cuda.is_bf16_supported(including_emulation=False),
    "accelerator": lambda: str(torch.accelerator.current_accelerator()),
    "is_cuda": lambda: torch.ones(1, device="cuda").is_cuda,
    "device of a tensor": lambda: str(torch.ones(1).cuda().device),
    "device of a host tensor": lambda: str(torch.ones(1).device),
    "pinned": lambda: torch.ones(1).pin_memory().is_pinned(),
    "scaler is on": lambda: torch.cuda.amp.GradScaler().is_enabled(),
    "elapsed time": lambda: str(torch.cuda.Event().elapsed_time(torch.cuda.Event())),
    "utilization": lambda: torch.cuda.utilization(),
    "graph": lambda: torch.cuda.CUDAGraph(),
    "second GPU": lambda: torch.ones(1, device="cuda:1"),
    "second GPU by number": lambda: torch.ones(1).cuda(1),
    "second GPU as the current one": lambda: torch.cuda.set_device(1),
}
# arguments of those functions that do not take none
ARGUMENTS = {
    "device": (0,),
    "device_index": (0,),
    "device_of": (torch.ones(1),),
    "manual_seed": (1,),
    "manual_seed_all": (1,),
    "set_device": ("cuda:0",),
    "set_device_idx": (0,),
    "set_device_index": (0,),
    "set_per_process_memory_fraction": (0.5,),
    "set_rng_state": (torch.zeros(16, dtype=torch.uint8),),
    "set_rng_state_all": ([torch.zeros(16, dtype=torch.uint8)],),
    "set_stream": (None,),
    "set_sync_debug_mode": ("warn",),
    "stream": (None,),
    "StreamContext": (None,),
}


def list_functions(module):
    """Return the public functions and classes of a module by name.

    Left out are exceptions, and storages with a type, which PyTorch keeps for files of old.
    """
    functions = {}
    for name in module.__all__:
        value = getattr(module, name)
        is_error = isinstance(value, type) and issubclass(value, Exception)
        if callable(value) and not name.endswith("Storage") and not is_error:
            functions[name] = value
    return functions


def list_parameters(function):
    """Return the names of a function's parameters that may be named in a call, `**` among them.

    Built-in classes do not tell them, and have an empty list.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return []
    names = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            names.append("**")
        elif parameter.kind is not parameter.POSITIONAL_ONLY:
            names.append(parameter.name)
    return names


def call_all(module):
    """Call each public function of a module within a simulation, and return what came of it.

    Returns:
        By the name of the function: its `outcome`, "answered" or the error, and the parameters of
        PyTorch's own function that are `lacking`.
    """
    parameters = {name: list_parameters(own) for name, own in list_functions(module).items()}
    outcomes = {}

    def make_step(_):
        step = make_layer_step("cuda")
        for name, function in list_functions(module).items():
            try:
                function(*ARGUMENTS.get(name, ()))
                outcome = "answered"
            except Exception as error:
                outcome = f"{type(error).__name__}: {error}"
            taken = list_parameters(function)
            lacking = [] if "**" in taken else sorted({*parameters[name]} - {*taken})
            outcomes[name] = {"outcome": outcome, "lacking": lacking}
        return step

    simulate(make_step, "a100-40gb")
    return outcomes


def make_layer_step(device, make_batch=None):
    """Train a linear layer without a bias on a device."""
    model = nn.Linear(WIDTH, WIDTH, bias=False).to(device)
    batch = torch.randn(ROWS, WIDTH).to(device) if make_batch is None else make_batch()
    return make_training_step(model, batch)


def make_chosen_step(_):
    """Choose the device as most scripts choose it."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.benchmark = True
    return make_layer_step(device)


def make_outside_step(_):
    """Train on a device that was chosen outside the simulation, where it is the CPU."""
    return make_layer_step(DEVICE_OF_OUTSIDE)


def make_outside_model_step(device):
    """Train on the CPU by mistake, and change a tensor on the GPU."""
    unused = torch.zeros(ROWS, device=device)
    step = make_layer_step(DEVICE_OF_OUTSIDE)
    return lambda: (step(), unused.add_(1))


def make_default_step(_):
    """Make every tensor on a default device."""
    torch.set_default_device("cuda")
    return make_layer_step("cuda", lambda: torch.randn(ROWS, WIDTH))


def make_context_step(_):
    """Make model and batch in a context of the device."""
    with torch.device("cuda"):
        return make_layer_step("cuda", lambda: torch.randn(ROWS, WIDTH))


def make_generator_step(_):
    """Draw the batch by a generator of the GPU."""
    generator = torch.Generator(device="cuda").manual_seed(0)
    return make_layer_step(
        "cuda", lambda: torch.randn(ROWS, WIDTH, generator=generator, device="cuda")
    )


def make_wrapped_step(_):
    """Wrap the model for all GPUs of a machine, which has one."""
    model = nn.DataParallel(nn.Linear(WIDTH, WIDTH, bias=False)).cuda()
    return make_training_step(model, torch.randn(ROWS, WIDTH, device="cuda"))


class Numbers(Dataset):
    """Samples from NumPy, as a dataset reads them from files."""

    def __len__(self):
        return 4 * ROWS

    def __getitem__(self, place):
        return torch.from_numpy(np.zeros(WIDTH, np.float32))


def make_loaded_step(_):
    """Train on batches of a loader with two processes and pinned memory."""
    loader = DataLoader(
        Numbers(), ROWS, shuffle=True, num_workers=2, pin_memory=True, persistent_workers=True
    )
    model = nn.Linear(WIDTH, WIDTH, bias=False).cuda()
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        for batch in loader:
            optimizer.zero_grad()
            model(batch.cuda(non_blocking=True)).square().mean().backward()
            optimizer.step()

    return step


def make_compiled_step(device):
    """Compile a model that makes matrices on a device that it was given, and on "cuda"."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(WIDTH, WIDTH)
            self.device = device

        def forward(self, x):
            first = torch.rand(WIDTH, WIDTH, device=self.device)
            second = torch.rand(WIDTH, WIDTH, device="cuda")
            return F.relu(self.layer(x)) @ first.to(x.device) @ second

    model = torch.compile(Model().to(device))
    batch = torch.randn(ROWS, WIDTH, device=device)
    return lambda: model(batch).sum().backward()


def make_limited_step(_):
    """Limit the script to a thousandth of the GPU."""
    torch.cuda.set_per_process_memory_fraction(0.001)
    return make_layer_step("cuda")


def ask(device):
    """Return the answer to each question, as a script gets it in its steps, or the error."""
    answers = {}

    def make_step(_):
        step = make_layer_step("cuda")

        def ask_and_step():
            for name, question in QUESTIONS.items():
                try:
                    answers[name] = question()
                except NotImplementedError as error:
                    answers[name] = str(error)
            step()

        return ask_and_step

    simulate(make_step, device)
    return {name: value for name, value in answers.items() if not isinstance(value, torch.Tensor)}


def read_own_memory():
    """Return what a script reads of its own memory, and what is simulated."""
    read = {}

    def make_step(_):
        step = make_layer_step("cuda")

        def measure():
            torch.cuda.reset_peak_memory_stats()
            read["between"] = torch.cuda.memory_allocated()
            step()
            read["peak"] = torch.cuda.max_memory_allocated()
            read["peak of statistics"] = torch.cuda.memory_stats()["allocated_bytes.all.peak"]
            read["reserved"] = torch.cuda.max_memory_reserved()
            read["free"], read["total"] = torch.cuda.mem_get_info()
            torch.cuda.reset_peak_memory_stats()
            read["peak after a reset"] = torch.cuda.max_memory_allocated()
            with contextlib.suppress(NotImplementedError):
                torch.cuda.memory_stats()["no such statistic"]
                read["no such statistic"] = True

        return measure

    simulation = simulate(make_step, "a100-40gb")
    return read | {
        "simulated": simulation.allocated,
        "simulated between": simulation.between_steps,
        "simulated reserved": simulation.reserved,
    }


def describe(make_step):
    """Return the bytes of each kind at the peak, or the error's type and message."""
    try:
        simulation = simulate(make_step, "a100-40gb")
    except (DoesNotFit, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return simulation.kinds


answers = {
    "a100": ask("a100-40gb"),
    "v100": ask("v100-16gb"),
    "all of torch.cuda": call_all(torch.cuda),
    "all of torch.accelerator": call_all(torch.accelerator),
    "own memory": read_own_memory(),
}
STEPS = [
    make_layer_step,
    make_chosen_step,
    make_outside_step,
    make_outside_model_step,
    make_default_step,
    make_context_step,
    make_generator_step,
    make_wrapped_step,
    make_loaded_step,
    make_limited_step,
    make_compiled_step,
]
for make_step in STEPS:
    answers[make_step.__name__] = describe(make_step)
answers["device afterwards"] = str(torch.get_default_device())
answers["is there CUDA afterwards"] = torch.cuda.is_available()
print(json.dumps(answers))
