"""Follow each storage on the device from its birth to its death, and the temporaries of kernels."""

from __future__ import annotations

import sys
import sysconfig
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch._prims import rng_prims
from torch._subclasses.fake_tensor import DynamicOutputShapeException
from torch.autograd import graph as autograd_graph
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from framebench.adapters.torch import fake_modules
from framebench.adapters.torch.fake_numbers import follow_numbers, is_drawing, read_number
from framebench.devices.simulation import (
    torch_attention,
    torch_choices,
    torch_convolutions,
    torch_kernels,
    torch_shapes,
    torch_sorts,
)
from framebench.devices.simulation.allocator import DEFAULT_STREAM, Allocator
from framebench.devices.simulation.blocks import Block, OutOfMemory
from framebench.devices.simulation.conditions import find_answer
from framebench.devices.simulation.torch_choices import UnknownChoice, UnknownTiming
from framebench.devices.simulation.torch_device import is_on_gpu
from framebench.devices.simulation.torch_gpu import BLAS_LT_WORKSPACE, Gpu
from framebench.devices.simulation.torch_snapshot import make_snapshot

aten = torch.ops.aten
# what linear layers and embeddings run
LAYERS = (aten.mm.default, aten.addmm.default, aten.bmm.default, aten.embedding.default)
COMPARES = (aten.allclose.default, aten.equal.default)  # they return a truth value
# operators by which a model on the host is told from one on the device
WORK = ("mm", "addmm", "bmm", "convolution")
RUN_BACKWARD = autograd_graph._engine_run_backward.__code__  # calls autograd's engine
# A line of the program reads True so often, and then False: it may be the condition of a loop that
# draws numbers until all are within bounds.
MOST_TRUE_ANSWERS = 2000
# beginnings of files outside the user's program: PyTorch, Python, the simulation, generated code
NOT_THE_PROGRAM = (
    str(Path(torch.__path__[0])),
    sysconfig.get_path("stdlib"),
    str(Path(__file__).parent),
    fake_modules.__file__,
    "<",
)


@dataclass
class Life:
    """One storage or workspace on the device."""

    number: int
    size: int  # as requested
    operator: str
    phase: str  # build, forward, backward or optimizer
    block: Block
    block_size: int  # as handed out
    born: int  # events of the allocator until then
    died: int | None = None
    kind: str = ""
    line: str = ""  # of the program that asked for it; none in the backward pass
    shape: str = ""
    stream: int = DEFAULT_STREAM  # that asked for it
    is_on_other_stream: bool = False  # a stream that did not ask for it uses it too

    def describe(self) -> str:
        """Return the line of the program, if any, with the operator that it ran."""
        return f"{self.line} {self.operator}".strip()

    def is_alive_at(self, event: int) -> bool:
        """Return whether it had its block after the first `event` events of the allocator."""
        return self.born <= event and (self.died is None or self.died >= event)


class StepOnHost(ValueError):
    """A step that ran on the CPU, so that its memory is not the GPU's."""

    def __init__(self, line: str) -> None:
        """Name the line of the program that computed on the CPU; empty if none is known."""
        place = f" ({line})" if line else ""
        super().__init__(
            f"the step ran on the CPU{place}, and its model takes no memory of the GPU. Make model "
            'and batch on the device that make_step gets, or on "cuda". Outside of make_step '
            "torch.cuda.is_available() is False, and a device that is chosen there by it is the CPU"
        )


class GpuOutOfMemory(OutOfMemory, torch.OutOfMemoryError):
    """The error by which a program learns that the GPU has no memory, so that it may take less."""


class Watch(TorchDispatchMode):
    """Give each storage on the device a block, and take the temporaries of each operator.

    A number that the program reads is made up (`invent_number`).
    """

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True: a compiled program is followed when it runs, not when it is traced."""
        return True

    def __init__(
        self,
        gpu: Gpu,
        allocator: Allocator,
        ranks: int = 1,
        chooses_all: bool | None = None,
        waits_for_streams: bool | None = None,
    ) -> None:
        """Begin without storages, in the phase `build`.

        Args:
            gpu: The GPU that is simulated.
            allocator: That of the GPU, with no memory taken.
            ranks: How many GPUs share the step.
            chooses_all: Whether operators that choose elements by their values choose all or none.
                None: they are refused.
            waits_for_streams: Whether blocks that another stream uses stay taken until the step
                ends. None: they are refused.
        """
        super().__init__()
        self.gpu = gpu
        self.allocator = allocator
        self.ranks = ranks
        self.chooses_all = chooses_all
        self.waits_for_streams = waits_for_streams
        self.lives: list[Life] = []
        self.alive: dict[int, Life] = {}  # by the address of the storage
        self.emptied: dict[int, str] = {}  # shapes of emptied storages, by their address
        # whether of the backward pass, and the library
        self.handles: set[tuple[bool, str]] = set()
        self.phase = "build"
        self.kernels: Counter[str] = Counter()
        self.convolutions: Counter[bool] = Counter()  # by whether their workspaces are known
        self.is_compiled = False  # whether a function of the program was compiled
        self.is_tensor_parallel = False  # whether a layer was computed on parts of its weights
        self.has_recurrent = False  # whether a recurrent layer ran that a GPU runs in cuDNN
        self.waiting: list[Life] = []  # dead storages whose blocks stay taken for another stream
        self.has_worked = False  # whether a layer was computed on the device
        self.host_line: str | None = None  # of the program, by which one was on the host
        self.truths_read: Counter[str] = Counter()  # by line of the program
        self.has_ended = False  # whether the simulation is over, and with it the trace
        # a sum of two gradients that has no block yet, and the first one's storage
        self.pending_sum: tuple[torch.UntypedStorage, Life] | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and follow it."""
        kwargs = kwargs or {}
        if self.ranks > 1 and any(kind.__name__ == "DTensor" for kind in types):
            # FSDP2 gathers weights to plain tensors before a layer is computed
            if self.phase == "forward" and func in LAYERS:
                self.is_tensor_parallel = True
            return NotImplemented  # it has the operator run on this rank's parts, which come here
        if any(kind.__name__ == "NestedTensor" for kind in types):
            return NotImplemented  # it has operators run on its values, which come here
        if not isinstance(func, torch._ops.OpOverload):  # one of a higher order
            return self.follow_higher_order(func, args, kwargs)
        has_number = bool(args) and getattr(args[0], "constant", None) is not None
        if func is aten._local_scalar_dense.default and not has_number:
            number = read_number(args[0])
            return self.invent_number(args[0]) if number is None else number
        if func in COMPARES:
            return self.invent_truth()
        if func._schema.name.startswith("aten::_fused_") and not func._schema.returns:
            return None  # updates in place, and some have no shapes of their own
        if not torch.is_grad_enabled():
            out = self.run_composed(func, args, kwargs)
            if out is not NotImplemented:
                return out
        if func is aten._to_copy.default and has_number:
            args[0].constant = None  # its number is not copied to the device
        try:
            out = func(*args, **kwargs)
        except DynamicOutputShapeException as error:
            out = torch_shapes.run_with_numbers(func, args, kwargs)
            if out is None:
                return self.run_choice(func, args, kwargs, error)
        except NotImplementedError:
            out = torch_shapes.run_on_host(func, args, kwargs)
        if func is aten._efficientzerotensor.default:
            out.untyped_storage().resize_(0)  # on a GPU it has no memory either
        operator = func._schema.name.partition("::")[2]
        out = torch_kernels.lay_out_results(operator, args, out)
        follow_numbers(func, args, kwargs, out)
        if func is aten.add.Tensor and is_in_backward() and self.defer_sum(args[0], args[1], out):
            return out
        if kwargs and operator in torch_sorts.TEMPORARIES:
            args = torch_kernels.place_keywords(func, args, kwargs)
        self.track_operator(operator, args, out)
        return out

    def run_choice(self, func: Any, args: Any, kwargs: Any, error: Exception) -> Any:
        """Run an operator that chooses elements by their values, as if all or none were chosen.

        Raises UnknownChoice unless the simulation has a choice, and NotImplementedError for an
        operator whose results have no bound.
        """
        if torch_choices.has_mask(func, args):
            with self:
                return func(*torch_choices.expand_masks(func, args), **kwargs)
        if self.chooses_all is None:
            raise UnknownChoice(find_line()) from error
        operator = func._schema.name.partition("::")[2]
        if func not in torch_choices.CHOOSES:
            line = find_line()
            raise NotImplementedError(
                f"values decide how large the results of {operator} are, and no bound of them is "
                f"known{f' ({line})' if line else ''}"
            ) from error
        args = torch_kernels.place_keywords(func, args, kwargs)
        out = torch_choices.CHOOSES[func](*args, self.chooses_all)
        self.track_operator(operator, args, out)
        return out

    def run_composed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator by those that it consists of; NotImplemented if it is one on the device.

        Only in inference mode do such operators come here: autograd takes them apart before.
        """
        if func is aten.scaled_dot_product_attention.default:
            with self:
                return torch_attention.attend(self.gpu, *args, **kwargs)
        is_whole = func._schema.name.partition("::")[2] in self.gpu.whole_operators
        if func.namespace == "aten" and func._can_decompose() and not is_whole:
            with self:
                return func.decompose(*args, **kwargs)
        return NotImplemented

    def follow_higher_order(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator that runs other operators, and follow those.

        A compiled step may recompute operators that draw random numbers in its backward pass. It
        then saves the state of the generator, which lies on the host.
        """
        if func is rng_prims.run_and_save_rng_state:
            operator, *arguments = args
            with self:
                return torch.get_rng_state(), operator(*arguments, **kwargs)
        if func is rng_prims.run_with_rng_state:
            _, operator, *arguments = args
            with self:
                return operator(*arguments, **kwargs)
        return func(*args, **kwargs)

    def track_operator(self, operator: str, args: Any, out: Any) -> None:
        """Track an operator's results, and the temporaries of its kernel."""
        # a number that an operator returns must not be taken for a request of bytes
        results = [leaf if isinstance(leaf, Tensor) else None for leaf in tree_leaves(out)]
        is_here = any(is_on_gpu(arg) for arg in args)
        if operator in WORK and is_here:
            self.has_worked = True
        elif operator in WORK and self.host_line is None:
            self.host_line = find_line()
        if not is_here:
            self.track_requests(operator, results)
            return
        if operator.startswith("_scaled_dot_product"):
            self.kernels[operator.removeprefix("_scaled_dot_product_")] += 1
        is_known = torch_convolutions.is_workspace_known(operator, args, self.gpu)
        if is_known is not None:
            self.convolutions[is_known] += 1
        requests = torch_kernels.order_results(operator, results, args, self.gpu)
        self.track_requests(operator, requests)
        if operator in torch_kernels.MATMULS:
            self.take_workspace("cuBLAS", self.gpu.blas_workspace)
            if torch_kernels.is_matmul_by_lt(operator, args):
                self.take_lt_workspace()
        if operator in torch_kernels.TEMPORARIES:
            temporaries = torch_kernels.TEMPORARIES[operator](args, self.gpu)
            self.track_requests(operator, temporaries)

    def check_device(self) -> None:
        """Raise StepOnHost if the step's layers were on the host, or nothing was on the device."""
        is_on_host = self.host_line is not None and not self.has_worked
        if is_on_host or not self.lives:
            raise StepOnHost(self.host_line or "")

    def track_requests(self, operator: str, requests: Iterable[Tensor | int | None]) -> None:
        """Track results, and bytes that a kernel takes (positive) or gives back (negative)."""
        lives_by_size: defaultdict[int, list[Life]] = defaultdict(list)
        try:
            for request in requests:
                if isinstance(request, Tensor):
                    for part in list_plain_parts(request) if is_on_gpu(request) else ():
                        self.add_storage(part.untyped_storage(), operator, describe_shape(part))
                elif request and request > 0:
                    lives_by_size[request].append(self.take(request, operator, "temporaries"))
                elif request:
                    self.give_back(lives_by_size[-request].pop())
        finally:
            for lives in lives_by_size.values():  # some are left if the GPU had no memory for all
                for life in lives:
                    self.give_back(life)

    def take_workspace(self, library: str, size: int) -> None:
        """Take the workspace of a library's handle, the first time that a thread uses it.

        Each thread has handles of its own (ATen/cuda/detail/DeviceThreadHandles.h), and on a GPU
        the backward pass runs in another.
        """
        key = (is_in_backward(), library)
        if size and key not in self.handles:
            self.handles.add(key)
            self.take(size, library, "workspaces")

    def take_lt_workspace(self) -> None:
        """Take cuBLASLt's workspace, for the handle or for one matmul."""
        if self.gpu.caches_lt_workspace:
            self.take_workspace("cuBLASLt", BLAS_LT_WORKSPACE)
        else:
            self.give_back(self.take(BLAS_LT_WORKSPACE, "cuBLASLt", "temporaries"))

    def defer_sum(self, first: Tensor, second: Tensor, out: Tensor) -> bool:
        """Put off the block of a sum of two gradients that autograd may write over the first one.

        Return whether it was put off, in `pending_sum`. On a real GPU autograd writes over the
        first gradient if nothing else refers to it, as a view refers to its base
        (`can_accumulate_inplace` in torch/csrc/autograd/input_buffer.cpp). For the tensors of a
        dispatch mode, as here, it always makes a new tensor, and frees the first one at once if
        nothing refers to it. So the next event shows what a GPU would have done (`settle_sum`). A
        sum that was pending before is settled.
        """
        if not isinstance(second, Tensor) or first._is_view():
            return False
        owner = self.alive.get(first.untyped_storage()._cdata)
        dense = first.numel() * first.element_size()
        same_size = all(
            tensor.untyped_storage().nbytes() == dense for tensor in (first, second, out)
        )
        if owner is None or not same_size or find_line():
            return False
        self.settle_sum()
        self.pending_sum = out.untyped_storage(), owner
        return True

    def settle_sum(self, dead: Life | None = None) -> bool:
        """Give the pending sum its block, and return whether that is the block of `dead`.

        `dead` is the storage that has just died. If the sum was written over it, the sum takes over
        its block, and otherwise gets one of its own.
        """
        if self.pending_sum is None:
            return False
        storage, owner = self.pending_sum
        self.pending_sum = None
        if owner is not dead:
            self.add_storage(storage, "add", owner.shape)
            return False
        self.attach(storage, owner)
        return True

    def attach(self, storage: torch.UntypedStorage, life: Life) -> None:
        """Let a storage hold the block until it dies."""
        self.alive[storage._cdata] = life
        weakref.finalize(storage, self.forget, storage._cdata, life).atexit = False

    def add_storage(self, storage: torch.UntypedStorage, operator: str, shape: str) -> None:
        """Give a storage a block, unless it has one or is empty."""
        if storage._cdata in self.alive or not storage.nbytes():
            return
        life = self.take(storage.nbytes(), operator)
        life.shape = shape
        self.attach(storage, life)

    def take(self, size: int, operator: str, kind: str = "") -> Life:
        """Take a block of so many bytes. Raises GpuOutOfMemory."""
        self.settle_sum()
        try:
            block = self.allocator.malloc(size)
        except OutOfMemory as error:
            raise GpuOutOfMemory(error.requested, self.allocator.stats) from None
        life = Life(
            number=len(self.lives),
            size=size,
            operator=operator,
            phase="backward" if is_in_backward() else self.phase,
            block=block,
            block_size=block.size,
            born=len(self.allocator.trace),
            kind=kind,
            line=find_line(),
            stream=self.allocator.stream,
        )
        self.lives.append(life)
        return life

    def resize(self, storage: torch.UntypedStorage) -> None:
        """Follow a storage that was resized, as FSDP empties and refills gathered weights."""
        key = storage._cdata
        life = self.alive.get(key)
        if life is not None:
            self.emptied[key] = life.shape
            weakref.finalize(storage, self.emptied.pop, key, None).atexit = False
            self.forget(key, life)
        if key in self.emptied and storage.nbytes():
            self.add_storage(storage, "resize_", self.emptied[key])

    def forget(self, key: int, life: Life) -> None:
        """Follow the death of a storage."""
        if life.died is not None or self.has_ended:  # emptied before, or dropped by the simulation
            return
        if self.alive.get(key) is life:
            del self.alive[key]
        if self.settle_sum(dead=life):
            return
        if life.is_on_other_stream and self.waits_for_streams:
            self.waiting.append(life)
        else:
            self.give_back(life)

    def record_stream(self, tensor: Tensor, stream: int) -> None:
        """Note that a stream uses a tensor, whose block then waits for the stream when it is freed.

        The GPU decides how long. A stream that asked for the block itself has no need to wait
        (`recordStream` in c10/cuda/CUDACachingAllocator.cpp). Raises UnknownTiming unless the
        simulation has an answer.
        """
        for part in list_plain_parts(tensor):
            life = self.alive.get(part.untyped_storage()._cdata)
            if life is None or life.stream == stream:
                continue
            if self.waits_for_streams is None:
                raise UnknownTiming(find_line())
            life.is_on_other_stream = True

    def end_step(self) -> None:
        """Give back the blocks that waited for another stream."""
        for life in self.waiting:
            self.give_back(life)
        self.waiting.clear()

    def give_back(self, life: Life) -> None:
        """Give a block back."""
        life.died = len(self.allocator.trace)
        self.allocator.free(life.block)

    def invent_number(self, tensor: Tensor) -> bool | int | float:
        """Return the number that a program gets when it reads a fake tensor.

        - An integer, such as a counter of steps, is 1.
        - A float is 0 on the device, so that GradScaler finds no infinite gradient, and 1 on the
          host.
        - For a truth value, see `invent_truth`.
        """
        if tensor.dtype == torch.bool:
            return False if is_drawing() else self.invent_truth()
        if not tensor.is_floating_point():
            return 1
        return 0.0 if is_on_gpu(tensor) else 1.0

    def invent_truth(self) -> bool:
        """Return the truth value that lets a check pass, of the program or of PyTorch's own.

        Outside of checks a line of the program reads True MOST_TRUE_ANSWERS times, and then False.
        """
        frame: FrameType | None = sys._getframe(1)
        program = find_frame()
        while frame is not None:
            answer = find_answer(frame.f_code.co_filename, frame.f_lineno)
            if answer is not None:
                return answer
            frame = None if frame is program else frame.f_back
        line = find_line()
        self.truths_read[line] += 1
        return self.truths_read[line] <= MOST_TRUE_ANSWERS

    def make_snapshot(self) -> dict[str, Any]:
        """Return what `torch.cuda.memory._snapshot` returns."""
        labels = {life.born - 1: life.describe() for life in self.lives}
        return make_snapshot(self.allocator, labels)

    def mark(self, tensors: Iterable[Any], kind: str) -> None:
        """Set the kind of the storages of these tensors, if they have none."""
        for tensor in filter(is_on_gpu, tensors):
            for part in list_plain_parts(tensor):
                life = self.alive.get(part.untyped_storage()._cdata)
                if life and not life.kind:
                    life.kind = kind

    def holds(self, tensor: Tensor) -> bool:
        """Return whether a tensor, or a part of it, has a block of this simulation."""
        return any(part.untyped_storage()._cdata in self.alive for part in list_plain_parts(tensor))

    def adopt(self, tensors: Iterable[Any], operator: str) -> None:
        """Give blocks to tensors that were made while no mode was on.

        Dynamo makes an optimizer's states while it traces a compiled update. A wrapper of several
        tensors gets no block: its own storage holds nothing.
        """
        for tensor in filter(is_on_gpu, tensors):
            if type(tensor).__name__ == "FakeTensor":
                self.add_storage(tensor.untyped_storage(), operator, describe_shape(tensor))


def find_peak(
    lives: Iterable[Life], count_bytes: Callable[[Life], int], first: int = 0
) -> tuple[int, int]:
    """Return the place in the trace at which most bytes were in use, and how many they were.

    The place is the number of the allocator's events until then.

    Args:
        lives: The storages and workspaces that count.
        count_bytes: Returns the bytes that each of them counts for.
        first: The first place that is considered.
    """
    changes: defaultdict[int, int] = defaultdict(int)
    for life in lives:
        changes[max(life.born, first)] += count_bytes(life)
        if life.died is not None:
            # one that died before the first event is added and subtracted at that event
            changes[max(life.died + 1, first)] -= count_bytes(life)
    peak_place = first
    most = 0
    in_use = 0
    for place in sorted(changes):
        in_use += changes[place]
        if in_use > most:
            peak_place, most = place, in_use
    return peak_place, most


def describe_shape(tensor: Tensor) -> str:
    """Return a tensor's type and shape, such as `float32[64, 16]`."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def is_in_backward() -> bool:
    """Return whether autograd runs a backward pass, which it does in this thread."""
    return bool(torch._C._current_graph_task_id() != -1)


def find_line() -> str:
    """Return the line of the user's program that is running as `folder/file.py:line`.

    The text is empty if no line of the program runs, as in a backward pass, unless it is that of a
    hook or of a derivative which the program defines.
    """
    frame = find_frame()
    if frame is None:
        return ""
    folder_and_file = frame.f_code.co_filename.split("/")[-2:]
    return f"{'/'.join(folder_and_file)}:{frame.f_lineno}"


def find_frame() -> FrameType | None:
    """Return the innermost frame whose file is part of the user's program, or None.

    On a GPU a backward pass runs in another thread, where no line of the program called it.
    """
    frame: FrameType | None = sys._getframe()
    while frame and frame.f_code.co_filename.startswith(NOT_THE_PROGRAM):
        if frame.f_code is RUN_BACKWARD and is_in_backward():
            return None
        frame = frame.f_back
    return frame


def list_plain_parts(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the plain tensors of which a wrapper or a sparse tensor consists."""
    if tensor.layout == torch.sparse_coo:
        yield tensor._indices()
        yield tensor._values()
    elif hasattr(tensor, "__tensor_flatten__") and type(tensor).__name__ != "FakeTensor":
        names, _ = tensor.__tensor_flatten__()
        for name in names:
            part = getattr(tensor, name)
            if isinstance(part, Tensor):  # a distributed tensor has its mesh there, too
                yield from list_plain_parts(part)
    else:
        yield tensor
