"""The interface between the worker and a framework.

A new framework is one subclass of `Adapter`, its switches, and one model file per workload.

A *switch* is the function that turns a strategy on in one framework: `switch(adapter, **options)`
is called with the case's adapter before anything is built. It sets or wraps the parts that the
adapter's build and step look at (`parts.py`). It returns a *proof* (`proof.py`), which judges the
*evidence* once the case was measured: what one more step counted (`Adapter.observe`). The proof may
make steps of its own, adds to the evidence what it counts in them, and says whether the strategy
was really on.
"""

from __future__ import annotations

import gc
import math
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol, TypeVar

import numpy as np

from framebench.adapters.holders import (
    FindStorages,
    find_array_storage,
    find_holders,
    iterate_globals,
)
from framebench.adapters.loading import Loader
from framebench.adapters.parts import Hooks, Ledger
from framebench.adapters.proof import Evidence, Proof, judge_parts
from framebench.adapters.user_functions import UserFile
from framebench.instruments import host, limits
from framebench.models.spec import USER_MODEL
from framebench.suite.case import Case
from framebench.suite.result import StrategyEffect
from framebench.suite.trees import is_array, select_rows, split

Switch = Callable[..., Proof]
Batch = tuple[Any, Any]  # inputs and targets, as the framework takes them
Result = TypeVar("Result")  # of steps that are made in another way

UNSEEN = "what no object of Python shows"


class RanksUnavailable(Exception):
    """This release of the framework cannot predict a case over ranks; the message says why."""


class Switches:
    """Hold the switches of a module; an instance is the decorator that registers them."""

    def __init__(self) -> None:
        """Begin without a switch."""
        self.by_name: dict[str, Switch] = {}  # the name of a row's switch in the catalog

    def __call__(self, function: Switch) -> Switch:
        """Register a function by its name, and return it."""
        self.by_name[function.__name__] = function
        return function


def collect_switches(modules: Iterable[ModuleType]) -> dict[str, Switch]:
    """Return the switches of a framework's modules by name."""
    switches: dict[str, Switch] = {}
    for module in modules:
        switches |= module.switch.by_name
    return switches


class Stopwatch(Protocol):
    """Measure time by the clock of the device."""

    def start(self) -> None:
        """Begin when the device has finished what is queued now."""

    def stop(self) -> None:
        """End when the device has finished what is queued now."""

    def seconds(self) -> float:
        """Return the seconds between `start` and `stop`. Call it after `synchronize`."""


@dataclass(frozen=True)
class State:
    """One tensor of the optimizer's state."""

    kind: str  # momentum, first moment, second moment; any other as the framework calls it
    name: str  # of the weight
    array: np.ndarray  # in the canonical layout
    nbytes: int


class Adapter(ABC):
    """One case in one framework.

    `build` it once, then call `step` and `synchronize` as often as needed; the other methods may be
    called between steps.
    """

    float64 = False  # set it before build() to compute reference values
    undoes_gc_freeze = True  # whether `reset_collector` undoes an earlier `gc.freeze`
    biased_variance = False  # whether batch norm's running variance is the biased one
    # whether a step from the same seed may draw other random numbers under another strategy
    may_draw_other_numbers = False
    budget_s = math.inf  # seconds that all steps of the case may take
    # bytes of malloc's large blocks before the user's file was imported; None if other things
    # than tensors take large blocks
    malloc_bytes_before: int | None = None
    unseen_before_steps = 0  # bytes of `UNSEEN` when the first step begins
    teacher_config: Any = None  # the configuration of a second model, which is not trained

    def __init__(self, case: Case, switches: Mapping[str, Switch]) -> None:
        """Take a case and its framework's switches, by the name in a row's `switch`."""
        self.case = case
        self.switches = switches
        self.workload = case.workload_spec
        self.config = case.config
        self.model_module = case.workload_spec.import_model(case.framework)
        self.micro_batches = case.strategy_spec.micro_batches
        # whether steps are verified with randomness disabled
        self.deterministic = case.is_deterministic
        self.ledger = Ledger()
        self.after_step: list[Callable[[], None]] = []  # called between two steps
        self.before_first_step: Hooks[[]] = Hooks(self.ledger)  # run once everything is built
        self.loader: Loader | None = None
        self.steps = 0
        self.restored_at = 0  # how many steps were made when the weights were last put back
        # timed steps, by how often each set its output
        self.outputs_per_step: Counter[int] = Counter()
        # inside of steps: waiting for data ("wait"), Python's garbage collector ("collector")
        self.seconds_spent: dict[str, float] = defaultdict(float)
        self.collections: Counter[str] = Counter()  # of Python's collector, by generation
        self.reset_collector()

    @property
    def is_user_model(self) -> bool:
        """Return whether the model is one of a user's file."""
        return self.case.workload == USER_MODEL

    def trains_by_file(self) -> bool:
        """Return whether the training step is that of a user's file."""
        if not self.is_user_model or self.case.scenario != "train":
            return False
        user_file: UserFile = self.model_module.user()
        return user_file.has_step()

    def reset_collector(self) -> None:
        """Undo what an earlier case did to Python's collector, and count its collections anew."""
        gc.enable()
        if self.undoes_gc_freeze:
            gc.unfreeze()
        self.start_counting_collections()

    def start_counting_collections(self) -> None:
        """Have this adapter, and no earlier one, count what Python's collector does."""
        for callback in list(gc.callbacks):
            if isinstance(getattr(callback, "__self__", None), Adapter):
                gc.callbacks.remove(callback)
        gc.callbacks.append(self.on_collection)

    def build(self) -> None:
        """Switch the strategy on, then make model, optimizer and inputs.

        Raises IncompatibleStrategies.
        """
        self.switch_on()
        self.make()
        self.before_first_step()
        if self.can_read_malloc():
            unseen = self.unseen_bytes(self.named_untracked_bytes())
            self.unseen_before_steps = max(0, unseen - self.reported_library_bytes())

    def switch_on(self) -> None:
        """Turn every part of the strategy on, and keep its proof.

        Raises IncompatibleStrategies, and LookupError for a part that has no switch.
        """
        self.proofs: dict[str, Proof] = {}
        for part in self.case.parts:
            if part.switch not in self.switches:
                raise LookupError(
                    f"the catalog names {part.switch!r}, and no function in framebench/adapters/"
                    f"{self.case.framework} has that name; add it there as a switch"
                )
            with self.ledger.acting_as(part.name):
                self.proofs[part.name] = self.switches[part.switch](self, **part.options)
        self.ledger.finish()

    def step(self) -> None:
        """Do one unit of work of the scenario. It may return before the device is done."""
        self.seed()
        self.one_step()
        self.steps += 1
        for hook in self.after_step:
            hook()

    def seed(self) -> None:
        """Seed the generators that a user's step draws from.

        The seed depends only on the number of steps since the weights were last put back, so that a
        repeated step draws the same numbers.
        """

    def disable_randomness(self) -> AbstractContextManager[Any]:
        """Return the context in which steps are verified.

        In it, a strategy that would draw random numbers in another order than the baseline
        (`deterministic`) draws none.
        """
        return nullcontext()

    def repeat_with_exact_choices(
        self, make_steps: Callable[[], Result]
    ) -> tuple[Result, str] | None:
        """Make steps with the choices that float32 makes, such as the experts of a mixture.

        Returns their result, and in words which choices rounding changes; None where it changes
        none, or where this cannot be tried. `make_steps` begins with the first weights.
        """
        return None

    def repeat_with_exact_sums(self, make_steps: Callable[[], Result]) -> tuple[Result, int] | None:
        """Make steps that add up gradients in float32 over all uses of a weight or an activation.

        Returns their result, and how many gradients a step adds up at most; None where it adds up
        none in a narrower type, or where this cannot be tried. `make_steps` begins with the first
        weights.
        """
        return None

    def draws_random_numbers(self) -> bool:
        """Run one more step and return whether it draws random numbers."""
        return False

    def keeps_drawing(self) -> bool:
        """Return whether steps draw random numbers that `disable_randomness` leaves as they are."""
        return False

    def draws_by_layout(self) -> bool:
        """Run one more step and return whether another memory format would change what it draws."""
        return True

    def find_narrow_result(self) -> str:
        """Run one more step in float64 and name its first operation with a narrower result.

        The text is empty if every result is in float64.
        """
        return ""

    def next_batch(self) -> Batch:
        """Return this step's batch: always the same one, or in `pipeline` the loader's next."""
        if self.loader is None:
            return self.inputs
        start = time.perf_counter()
        batch = self.loader.next()
        self.seconds_spent["wait"] += time.perf_counter() - start
        return batch

    def cut_batch(self, batch: Batch, parts: int) -> list[Batch]:
        """Return the micro-batches of a batch that is on the device.

        A user's batch is cut as its file says, or along the axis of its samples.
        """
        if parts == 1:
            return [batch]
        if self.is_user_model:
            user_file: UserFile = self.model_module.user()
            return user_file.split_batch(batch, parts, self.case.batch)
        inputs, targets = batch
        return list(zip(split(inputs, parts), split(targets, parts), strict=True))

    def find_target(self, batch: Batch) -> Any:
        """Return what the loss compares an output with: the targets of a batch.

        For a user's batch without separate targets, it is the batch as the file returned it; a
        pair of inputs and None has None.
        """
        _, targets = batch
        if self.is_user_model and self.model_module.user().form.has_no_targets:
            return self.model_module.user().as_written(batch)
        return targets

    def on_collection(self, phase: str, info: dict[str, int]) -> None:
        """Count and time collections of Python's collector, as one of `gc.callbacks`."""
        if phase == "start":
            self.collection_started = time.perf_counter()
        else:
            self.seconds_spent["collector"] += time.perf_counter() - self.collection_started
            self.collections[f"generation {info['generation']}"] += 1

    def judge_effect(self) -> StrategyEffect:
        """Observe one more step, and let the proof of each part of the strategy judge it.

        The step is seeded, so that a step to compare it with can draw the same random numbers.
        """
        self.seed()
        return judge_parts(self.proofs, self.observe())

    inputs: Batch  # set by make()
    stream: list[Batch]  # `varlen`: set by make()
    outputs = 0  # how often an output was set

    @property
    def output(self) -> Any:
        """Return the last step's loss, in `eval` its logits; empty after `release`."""
        return self.last_output

    @output.setter
    def output(self, output: Any) -> None:
        self.outputs += 1
        self.last_output = output

    @abstractmethod
    def make(self) -> None:
        """Make the model from the canonical weights, the optimizer, and the inputs on the device.

        The inputs are `inputs`, or in their place `loader` or `stream`.
        """

    @abstractmethod
    def put(self, x: Any, y: Any) -> Batch:
        """Return a canonical batch on the device, in the framework's layout and precision."""

    def put_inputs(self) -> None:
        """Put the case's batch on the device as `inputs`, or those of `varlen` as `stream`."""
        if self.case.scenario == "varlen":
            self.stream = [self.put(x, y) for x, y in self.case.make_stream()]
        else:
            self.inputs = self.put(*self.workload.make_batch(self.config, self.case.batch))

    @abstractmethod
    def one_step(self) -> None:
        """Make one training or evaluation step, without the seeds, counts and hooks of `step`."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device has finished all steps."""

    @abstractmethod
    def loss(self) -> float:
        """Return the loss of the last step; in `eval` computed from its logits."""

    @abstractmethod
    def logits(self) -> np.ndarray:
        """Return the logits of the last step of `eval`, channels first."""

    @abstractmethod
    def weights(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield every weight and buffer, by canonical name and in the canonical layout.

        The names of a teacher's weights begin with `teacher.`. The arrays may share the framework's
        memory.
        """

    @abstractmethod
    def states(self) -> Iterator[State]:
        """Yield the optimizer's states, without counts of steps."""

    @abstractmethod
    def restore(self) -> None:
        """Put back the initial weights, buffers and optimizer states, without compiling again."""

    @property
    def can_restore(self) -> bool:
        """Return whether `restore` works for this case.

        It does not if weights are packed into codes, if a step makes its own models, or if several
        ranks share the weights.
        """
        is_packed = self.case.strategy_spec.precision.startswith("int8")
        makes_own_models = self.case.scenario in ("pair", "generate")
        return not is_packed and not makes_own_models and self.case.ranks == 1

    @abstractmethod
    def observe(self) -> Evidence:
        """Run one more step and return counts of what it did.

        Examples are executions of blocks, matmuls by type, and tensors saved for the backward pass.
        Which counts there are depends on the framework.
        """

    @abstractmethod
    def allocate(self, size: int) -> Any:
        """Return a tensor of so many bytes on the device, with every page written.

        Instruments are checked with it.
        """

    @abstractmethod
    def parameter_count(self) -> int:
        """Return how many numbers the parameters of the built model have."""

    def count_batched_matmuls(self) -> int:
        """Return how many batched matmuls a step has, such as those of attention.

        It is 0 in a framework where no strategy depends on them.
        """
        return 0

    def release(self) -> None:
        """Drop the last step's output, so that the graph behind it does not count as state.

        Nothing is kept here: an adapter that keeps an output overrides this.
        """

    @abstractmethod
    def live_bytes(self) -> int:
        """Return the bytes of the tensors alive between two steps.

        These are weights, gradients, optimizer states, inputs and last outputs.
        """

    def untracked_bytes(self) -> dict[str, int]:
        """Return the host memory of a user's program that `live_bytes` leaves out, by its holder.

        It is held between two steps in globals, closures and attributes, or was allocated before
        the first step in a way that no Python object shows (`UNSEEN`). What libraries allocate in
        steps is not the program's: see `library_bytes`. The suite's own cases hold nothing.
        """
        holders, _ = self.measure_untracked()
        return holders

    def library_bytes(self) -> int:
        """Return the bytes that libraries of kernels have allocated in a user's steps and keep.

        No Python object shows them. MKL keeps buffers into which it packs matrices, and oneDNN
        keeps generated code and reordered weights. Their bytes depend on the processor, so no peak
        of a steady step includes them.
        """
        _, libraries = self.measure_untracked()
        return libraries

    def measure_untracked(self) -> tuple[dict[str, int], int]:
        """Return `untracked_bytes` and `library_bytes` of the same moment."""
        if not self.is_user_model:
            return {}, 0
        holders = self.named_untracked_bytes()
        unseen_and_library_bytes = self.unseen_bytes(holders)
        unseen_bytes = max(0, min(self.unseen_before_steps, unseen_and_library_bytes))
        if unseen_bytes:
            holders[UNSEEN] = unseen_bytes
        return holders, max(0, unseen_and_library_bytes - unseen_bytes)

    def can_read_malloc(self) -> bool:
        """Return whether counters of malloc's large blocks show a user's program's allocations.

        This is so on a CPU, in a framework where only tensors take large blocks.
        """
        has_bytes_before = self.malloc_bytes_before is not None
        return self.is_user_model and has_bytes_before and self.device() == "cpu"

    def unseen_bytes(self, bytes_by_holder: Mapping[str, int]) -> int:
        """Return the bytes in malloc's large blocks that are not tensors nor in `bytes_by_holder`.

        `live_bytes` counts the tensors, and `bytes_by_holder` has other known bytes. Only blocks
        allocated since the user's file was imported count. The result may be negative: a tensor
        that lies in a hole between small blocks is in no large block.
        """
        if not self.can_read_malloc():
            return 0
        large_blocks = host.measure_large_blocks()
        assert large_blocks is not None
        assert self.malloc_bytes_before is not None
        explained = self.live_bytes() + sum(bytes_by_holder.values())
        return large_blocks - self.malloc_bytes_before - explained

    def reported_library_bytes(self) -> int:
        """Return the bytes that libraries report to have taken since the file was imported."""
        return 0

    def named_untracked_bytes(self) -> dict[str, int]:
        """Return the part of `untracked_bytes` that Python objects hold."""
        roots = iterate_globals(self.case.user_file)
        holders = Counter(find_holders(roots, find_array_storage, ()))
        holders.update(self.measure_held_arrays())
        return dict(holders)

    def measure_held_arrays(self) -> dict[str, int]:
        """Return the bytes of the framework's arrays that globals of a user's file hold, by holder.

        JAX and Jittor count every array alive. So their `live_bytes` and `read_peaks` leave these
        out, which `untracked_bytes` adds.
        """
        if not self.is_user_model or self.device() != "cpu":
            return {}
        find_storages, known = self.make_array_finder()
        return find_holders(iterate_globals(self.case.user_file), find_storages, known)

    def make_array_finder(self) -> tuple[FindStorages, set[int]]:
        """Return a function that finds the storages of the framework's arrays.

        The second result has the addresses of the storages that a step needs.
        """
        return (lambda _: {}), set()

    def reset_peak(self) -> None:
        """Begin the region whose peak `read_peaks` reports."""

    def read_peaks(self) -> dict[str, int]:
        """Return the peak bytes since `reset_peak` of each of the framework's counters."""
        return {}

    def read_counters(self) -> dict[str, int]:
        """Return other counts of a GPU's allocator: fragmentation, retries, failures and so on."""
        return {}

    def find_known_fault(self) -> str | None:
        """Return the framework's fault that makes this case wrong on this machine, or None."""
        return None

    def make_stopwatch(self) -> Stopwatch | None:
        """Return a stopwatch on the device, or None if the framework has no events for it."""
        return None

    def compile(self) -> None:
        """Compile for the shape of the current `inputs`; do nothing in eager mode.

        It is called before a memory limit is enforced, since compilers need memory too.
        """

    def limit_memory(self, budget: int | None) -> bool:
        """Limit tensors and workspaces to `budget` more bytes; None removes the limit.

        Return whether the limit is enforced. If it is not, only the measured peak tells whether the
        case fits.
        """
        if self.device() != "cpu":
            return False
        if budget is not None:
            holders, libraries = self.measure_untracked()
            budget -= self.live_bytes() + sum(holders.values()) + libraries
        limits.limit_growth(budget)
        return budget is not None

    def sample_losses(self) -> list[float]:
        """Return the loss of each sample in the last step of `eval`."""
        logits = self.output
        inputs = self.inputs
        x, y = inputs
        losses = []
        for i in range(len(y)):
            self.output = logits[i : i + 1]
            self.inputs = (x, y[i : i + 1])
            losses.append(self.loss())
        self.output = logits
        self.inputs = inputs
        return losses

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Return the versions of the framework and of the libraries that decide its speed."""

    @abstractmethod
    def device(self) -> str:
        """Return `cpu`, or the accelerator's name."""


def join_output(
    output: Any, is_inexact: Callable[[Any], bool], to_numpy: Callable[[Any], np.ndarray]
) -> np.ndarray:
    """Return a model's output in float64.

    If it has several arrays, all numbers of a sample are in one row (see `select_rows`). Raises
    TypeError if the output has no array.
    """
    if is_array(output):
        return widen(to_numpy(output))
    selected = select_rows(output, is_inexact)
    if not selected:
        raise TypeError(f"the output, {type(output).__name__}, has no array that could be verified")
    rows = selected[0].shape[0] if selected[0].shape else 1  # the same in all arrays
    columns = []
    for array in selected:
        wide = widen(to_numpy(array))
        # without rows, as when a detector finds nothing, NumPy cannot infer the columns
        columns.append(wide.reshape(rows, wide.size // max(rows, 1)))
    return np.concatenate(columns, 1)


def widen(array: np.ndarray) -> np.ndarray:
    """Return numbers in float64; complex ones get a last axis of real and imaginary parts."""
    if np.iscomplexobj(array):
        array = np.stack([array.real, array.imag], -1)
    return array.astype(np.float64)
