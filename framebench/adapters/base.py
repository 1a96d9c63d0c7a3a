"""What the worker asks of a framework. A new framework is one subclass, its switches, and one model file per workload.

A *switch* is the function that turns a strategy on in one framework: `switch(adapter, **options)` is called before anything
is built, and sets or wraps the parts that the adapter's build and step look at (`parts.py`). It returns a *proof*
(`proof.py`), which judges the *evidence* once the case was measured: what one more step counted (`Adapter.observe`). The
proof may make steps of its own, adds to the evidence what it counts in them, and says whether the strategy was really on.
"""

from __future__ import annotations

import gc
import math
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from framebench.adapters.holders import find_array_storage, find_holders, iterate_globals
from framebench.adapters.loading import Loader
from framebench.adapters.parts import Hooks, Ledger
from framebench.adapters.proof import Evidence, Proof, judge_parts
from framebench.instruments import host, limits
from framebench.models.spec import OWN
from framebench.suite.case import Case
from framebench.suite.result import StrategyEffect

Switch = Callable[..., Proof]
Batch = tuple[Any, Any]  # inputs and targets, as the framework takes them

UNSEEN = "what no object of Python shows"


class Switches(dict[str, Switch]):
    """Switches by the name in a row's `how`. Use as a decorator to enter a function under its own name."""

    def __call__(self, function: Switch) -> Switch:
        self[function.__name__] = function
        return function


class Stopwatch(Protocol):
    """A stopwatch on the device."""

    def start(self) -> None:
        """Begin, once the device has come to what is queued now."""

    def stop(self) -> None:
        """End, once the device has come to what is queued now."""

    def seconds(self) -> float:
        """Return the seconds between the two. Call it after `synchronize`."""


@dataclass(frozen=True)
class State:
    """One tensor of the optimizer's state."""

    kind: str  # momentum, first moment, second moment; any other as the framework calls it
    name: str  # of the weight
    array: np.ndarray  # in the canonical layout
    nbytes: int


class Adapter(ABC):
    """One case in one framework.

    `build` it once, then call `step` and `synchronize` as often as needed, with questions in between.
    """

    float64 = False  # set before build() to compute reference values
    unfreezes = True  # whether a new adapter takes back the `gc.freeze` of a case before it
    biased_variance = False  # of batch norm's running statistics
    may_draw_other_numbers = False  # whether a step from the same seed may draw other numbers under another strategy
    budget_s = math.inf  # seconds that all steps of the case may take
    malloc_bytes_before: int | None = (
        None  # of malloc, before the user's file was imported; where tensors are all that takes such
    )
    unseen_before_steps = 0  # bytes of `UNSEEN` when the first step begins
    teacher: Any = None  # the configuration of a second model that is not trained

    def __init__(self, case: Case, switches: Mapping[str, Switch]) -> None:
        """Set up the parts of the case. `switches`: this framework's, by the name in a row's `how`."""
        self.case = case
        self.switches = switches
        self.workload = case.spec
        self.config = case.config
        self.model_module = case.spec.model(case.framework)
        self.micro_batches = case.plan.micro_batches
        self.deterministic = case.still
        self.ledger = Ledger()
        self.after_step: list[Callable[[], None]] = []  # what a strategy does between two steps
        self.before_first_step: Hooks[[]] = Hooks(self.ledger)  # what it does once everything is built
        self.loader: Loader | None = None
        self.steps = 0
        self.restored_at = 0  # steps until the weights were last put back
        self.outputs_per_step: Counter[int] = Counter()  # timed steps by how often each set its output
        self.seconds_spent: dict[str, float] = defaultdict(float)  # seconds of the steps: waiting for data, Python's collector
        self.collections: Counter[str] = Counter()  # of Python's collector, by generation
        gc.enable()
        if self.unfreezes:
            gc.unfreeze()
        self.count_collections()

    def count_collections(self) -> None:
        """Have this adapter count what Python's collector does, in the place of any other."""
        gc.callbacks[:] = [c for c in gc.callbacks if not isinstance(getattr(c, "__self__", None), Adapter)]
        gc.callbacks.append(self.on_collection)

    def build(self) -> None:
        """Switch the strategy on, then make model, optimizer and inputs. Raises IncompatibleStrategies."""
        self.switch_on()
        self.make()
        self.before_first_step()
        if self.can_read_malloc():
            unseen = self.unseen_bytes(self.named_untracked_bytes()) - self.reported_library_bytes()
            self.unseen_before_steps = max(0, unseen)

    def switch_on(self) -> None:
        """Turn every part of the strategy on, and keep what proves it. Raises IncompatibleStrategies."""
        self.proofs: dict[str, Proof] = {}
        for part in self.case.parts:
            with self.ledger.acting_as(part.name):
                self.proofs[part.name] = self.switch(part.how)(self, **part.options)
        self.ledger.finish()

    def switch(self, how: str) -> Switch:
        """Return the function that turns a part of a strategy on. Raises LookupError."""
        if how not in self.switches:
            folder = f"framebench/adapters/{self.case.framework}"
            raise LookupError(f"the catalog names {how!r}, and no function in {folder} has that name; add it there as a switch")
        return self.switches[how]

    def step(self) -> None:
        """Do one unit of work of the scenario. It may return before the device is done."""
        self.seed()
        self.one_step()
        self.steps += 1
        for hook in self.after_step:
            hook()

    def seed(self) -> None:
        """Set the generators that a user's step draws from, to the same state before the same step since the first weights."""

    def disable_randomness(self) -> AbstractContextManager[Any]:
        """Return the context in which steps are verified.

        In it those of a strategy that draws random numbers in another order than the baseline draw none.
        """
        return nullcontext()

    def draws_random_numbers(self) -> bool:
        """Say whether a step draws random numbers, seen in one more."""
        return False

    def narrow_results(self) -> str:
        """Name an operation of one more step in float64 whose result is narrower. Empty if there is none."""
        return ""

    def next_batch(self) -> Batch:
        """Return the batch of this step: always the same one, or in `pipeline` what the loader gives."""
        if self.loader is None:
            return self.inputs
        start = time.perf_counter()
        batch = self.loader.next()
        self.seconds_spent["wait"] += time.perf_counter() - start
        return batch

    def on_collection(self, phase: str, info: dict[str, int]) -> None:
        """Count and time what Python's collector does. See `gc.callbacks`."""
        if phase == "start":
            self.collection_started = time.perf_counter()
        else:
            self.seconds_spent["collector"] += time.perf_counter() - self.collection_started
            self.collections[f"generation {info['generation']}"] += 1

    def judge_effect(self) -> StrategyEffect:
        """Observe one more step, and ask every part of the strategy for its proof."""
        return judge_parts(self.proofs, self.observe())

    inputs: Batch  # set by make()
    stream: list[Batch]  # `varlen`: set by make()
    outputs = 0  # how often an output was set

    @property
    def output(self) -> Any:
        """Of the last step: the loss, in `eval` the logits; empty after `release`."""
        return self.last_output

    @output.setter
    def output(self, output: Any) -> None:
        self.outputs += 1
        self.last_output = output

    @abstractmethod
    def make(self) -> None:
        """Make the model from the canonical weights, the optimizer, and `inputs` on the device, or the loader or stream."""

    @abstractmethod
    def put(self, x: Any, y: Any) -> Batch:
        """Return a canonical batch on the device, in the framework's layout and precision."""

    @abstractmethod
    def one_step(self) -> None:
        """Go forward, backward and update, or make one or several forward passes. It may return before the device is done."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all that `step` asked for is done."""

    @abstractmethod
    def loss(self) -> float:
        """Return the loss of the last step; in `eval` computed from its logits."""

    @abstractmethod
    def logits(self) -> np.ndarray:
        """Return the logits of the last step of `eval`, in the canonical (channels first) layout."""

    @abstractmethod
    def weights(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield every weight and buffer as it is now, by canonical name and in the canonical layout.

        A teacher's have the prefix `teacher.`. The arrays may share the framework's memory.
        """

    @abstractmethod
    def states(self) -> Iterator[State]:
        """Yield the optimizer's states as they are now, but for counts."""

    @abstractmethod
    def restore(self) -> None:
        """Put the case's weights and buffers and the optimizer's first state into the step as it was compiled."""

    @property
    def can_restore(self) -> bool:
        """Say whether `restore` works for this case.

        It does not where weights are packed into codes, where a step makes its models anew, and where several
        ranks share them.
        """
        packed = self.case.plan.precision.startswith("int8")
        return not packed and self.case.scenario not in ("pair", "generate") and self.case.ranks == 1

    @abstractmethod
    def observe(self) -> Evidence:
        """Run one more step and count in it what the framework can: block executions, matmuls by dtype, saved tensors."""

    @abstractmethod
    def allocate(self, size: int) -> Any:
        """Return a tensor of so many bytes on the device, every page of it written: instruments are checked with it."""

    @abstractmethod
    def parameter_count(self) -> int:
        """Return how many trainable numbers the model has as it was built."""

    def count_batched_matmuls(self) -> int:
        """Return how many batched matmuls, as attention's are, a step has; 0 where no strategy asks."""
        return 0

    def release(self) -> None:
        """Drop the last step's outputs, so that a graph which they hold does not count as state."""

    @abstractmethod
    def live_bytes(self) -> int:
        """Return the bytes of the tensors alive between two steps.

        These are weights, gradients, optimizer states, inputs and last outputs.
        """

    def untracked_bytes(self) -> dict[str, int]:
        """Return bytes by holder that lie in host memory between two steps and are none of `live_bytes`.

        A user's program holds them in globals, closures and attributes, or had allocated them before the first step in a way
        that no object of Python shows (`UNSEEN`). What libraries take in steps is not the program's: `library_bytes`. The
        suite's own cases hold nothing.
        """
        holders, _ = self.measure_untracked()
        return holders

    def library_bytes(self) -> int:
        """Return the bytes that a user's steps have left in memory and that no object of Python shows.

        Libraries of kernels keep them for their next calls: MKL packs matrices into them, oneDNN holds generated code and
        reordered weights. How many there are depends on the processor, so they are in no peak of a steady step.
        """
        _, libraries = self.measure_untracked()
        return libraries

    def measure_untracked(self) -> tuple[dict[str, int], int]:
        """Return what `elsewhere` and `library_bytes` are, of one moment."""
        if self.case.workload != OWN:
            return {}, 0
        holders = self.named_untracked_bytes()
        all_unseen = self.unseen_bytes(holders)
        unseen = max(0, min(self.unseen_before_steps, all_unseen))
        if unseen:
            holders[UNSEEN] = unseen
        return holders, max(0, all_unseen - unseen)

    def can_read_malloc(self) -> bool:
        """Return whether malloc tells what a user's program takes: on a CPU, where tensors are all that takes large blocks."""
        return self.case.workload == OWN and self.malloc_bytes_before is not None and self.device() == "cpu"

    def unseen_bytes(self, named: Mapping[str, int]) -> int:
        """Return the bytes in large blocks that came since the user's file was imported, and that nothing explains.

        It may be less than 0: a tensor of `live_bytes` that lies in a hole between small blocks is in no block of its own.
        """
        if not self.can_read_malloc():
            return 0
        taken = host.large_blocks()
        assert taken is not None
        assert self.malloc_bytes_before is not None
        explained = self.live_bytes() + sum(named.values()) + self.harness_bytes()
        return taken - self.malloc_bytes_before - explained

    def harness_bytes(self) -> int:
        """Return the bytes that the adapter keeps for itself, which are neither the model's nor the user's."""
        return 0

    def reported_library_bytes(self) -> int:
        """Return the bytes that libraries themselves say they have taken since the user's file was imported."""
        return 0

    def named_untracked_bytes(self) -> dict[str, int]:
        """Return the bytes of `elsewhere` that Python's objects show, by holder."""
        return find_holders(iterate_globals(self.case.user_file), find_array_storage, ())

    def resting_bytes(self) -> int:
        """Return all that a step finds in memory when it begins."""
        holders, libraries = self.measure_untracked()
        return self.live_bytes() + sum(holders.values()) + libraries

    def reset_peak(self) -> None:
        """Begin the region whose peak `read_peaks` reports."""

    def read_peaks(self) -> dict[str, int]:
        """Return the peak in bytes since `reset_peak`, by those of the framework's own counters that exist here."""
        return {}

    def read_counters(self) -> dict[str, int]:
        """Return what else a GPU's allocator counts, such as fragmentation, retries and failures."""
        return {}

    def find_known_fault(self) -> str | None:
        """Say why the case cannot come out right here, where the framework itself is known to err."""
        return None

    def explain_wrong_tensors(self, names: list[str]) -> str | None:
        """Say what the framework is known to compute wrong by itself, where that explains these wrong tensors."""
        return None

    def make_stopwatch(self) -> Stopwatch | None:
        """Return a stopwatch on the device, where there is a device next to the host and the framework shows its events."""
        return None

    def compile(self) -> None:
        """Compile for the shape of the present `inputs`, before a memory limit is enforced. Nothing in eager mode."""

    def limit_memory(self, budget: int | None) -> bool:
        """Let tensors and workspaces take `budget` bytes from now on (None: all there is).

        Return whether anything enforces that; where nothing does, the measured peak decides alone.
        """
        if self.device() != "cpu":
            return False
        limits.limit_growth(None if budget is None else budget - self.resting_bytes())
        return budget is not None

    def sample_losses(self) -> list[float]:
        """Return the last step's loss in `eval` sample by sample."""
        logits, (x, y) = self.output, self.inputs
        losses = []
        for i in range(len(y)):
            self.output, self.inputs = logits[i : i + 1], (x, y[i : i + 1])
            losses.append(self.loss())
        self.output, self.inputs = logits, (x, y)
        return losses

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Return the versions of the framework and of the libraries that decide its speed."""

    @abstractmethod
    def device(self) -> str:
        """Return `cpu`, or the accelerator's name."""


def find_length_strategy(case: Case) -> str:
    """Return how a case of `varlen` treats lengths: padded, bucketed or raw."""
    return next(part.name for part in case.parts if part.axis == "lengths")
