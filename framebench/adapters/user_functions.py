"""The functions that `framebench try` calls in a user's file, and the checks of what they return.

Each call begins from the same seeds, so that every process builds the same model and batch.
"""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from framebench.models.spec import SEED
from framebench.suite.trees import (
    are_arguments,
    can_split,
    is_array,
    is_list_of_samples,
    list_arrays,
    split,
)
from framebench.suite.user_file import Fault, list_definitions, load_file

FLOAT32_BYTES = 4
LONGEST_PERIOD = 32  # the most steps that are made until an optimizer changes the weights
STEP = "step(model, batch, optimizer)"
STEP_ARGUMENTS = 3
TOTALS = ("loss", "total_loss", "loss_total")  # keys of the loss among others that are logged
CALLED = ("forward", "execute", "__call__")  # methods of a model that frameworks call
# how messages call what returns a loss, by the function of the file that it belongs to
LOSS_SOURCES = {"loss": "loss(output, target)", "model": "the model", "step": STEP}
# names of an argument of `optimizer` that is the model
MODEL_NAMES = ("model", "net", "network", "module")

T = TypeVar("T")
# Called with the part of the file that is about to run, such as "model()".
LISTENERS: list[Callable[[str], object]] = []


def announce(part: str) -> None:
    """Tell every listener which part of the file runs now."""
    for listener in LISTENERS:
        listener(part)


def describe_type(instance: Any) -> str:
    """Return the name of an object's class as users know it.

    PyTorch's fake tensors are called tensors, since the user's code made tensors.
    """
    for base in type(instance).__mro__:
        if not base.__module__.startswith("torch._subclasses"):
            return f"{base.__module__}.{base.__qualname__}".removeprefix("builtins.")
    raise AssertionError("every class ends in object")


def leave_operation_unknown(adapter: Any, *details: Any) -> str:
    """Return "" for the operation that did something: this framework cannot tell which it was."""
    return ""


def unwrap_loss(value: Any) -> Any:
    """Return the loss in a tuple or dictionary whose other values are only logged."""
    if isinstance(value, tuple | list) and value:
        return value[0]
    if isinstance(value, Mapping):
        for name in TOTALS:
            if value.get(name) is not None:
                return value[name]
        if is_loss(value.get("total")):  # it may also be, for instance, a number of samples
            return value["total"]
    return value


def is_loss(value: Any) -> bool:
    """Return whether something is an array of one floating-point number."""
    return is_array(value) and math.prod(value.shape) == 1 and "float" in str(value.dtype)


def find_loss(output: Any) -> Any:
    """Return the loss in a model's output, or None if there is none.

    The output may be the loss itself, have an attribute or key `loss`, be a tuple with one number
    in it, such as `logits, loss`, or be a dictionary without a total, which is returned as it is.
    """
    if is_loss(output):
        return output
    if isinstance(output, Mapping):
        return unwrap_loss(output)
    if getattr(output, "loss", None) is not None:
        return output.loss
    if isinstance(output, tuple | list):
        numbers = [item for item in output if is_loss(item)]
        if len(numbers) == 1:
            return numbers[0]
    return None


@dataclass(frozen=True)
class LossTerms:
    """The numbers in a dictionary without a total, by their keys."""

    counted: tuple[str, ...] = ()  # their sum is the loss
    logged: tuple[str, ...] = ()  # they are not trained
    unclear: tuple[str, ...] = ()  # they may be trained, and are no losses by their name


def find_loss_terms(values: Mapping[Any, Any]) -> LossTerms:
    """Return which numbers of a dictionary are the losses that its owner adds up.

    These are the numbers with "loss" in their key. Where a framework tells which numbers a backward
    pass reaches, the others are only logged. A single number that it reaches needs no such key.
    """
    numbers = select_numbers(values)
    loss_names = [name for name in numbers if "loss" in name.lower()]
    maybe_trained = []
    for name, number in numbers.items():
        # an array that does not tell, as in JAX, may be trained
        if is_trained(number, if_unknown=is_array(number)):
            maybe_trained.append(name)

    counted = [name for name in loss_names if name in maybe_trained]
    unclear = [name for name in maybe_trained if name not in loss_names]
    if loss_names and not counted:  # an evaluation trains none
        counted = loss_names
    elif not loss_names and len(unclear) == 1:
        (only,) = unclear
        if is_trained(numbers[only], if_unknown=False):
            counted, unclear = [only], []
    logged = [name for name in numbers if name not in counted and name not in unclear]
    return LossTerms(tuple(counted), tuple(logged), tuple(unclear))


def select_numbers(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the entries that are one number, by their keys as text."""
    numbers = {}
    for key, value in values.items():
        if is_loss(value) or isinstance(value, float):
            numbers[str(key)] = value
    return numbers


def is_trained(number: Any, if_unknown: bool) -> bool:
    """Return whether a backward pass reaches a number, or `if_unknown` where it does not tell."""
    return bool(getattr(number, "requires_grad", if_unknown))


def select_returned(returned: Any, kind: type[T]) -> list[T]:
    """Return the objects of a class in a function's result: one, several, or a dictionary."""
    if isinstance(returned, dict):
        returned = list(returned.values())
    if not isinstance(returned, list | tuple):
        returned = [returned]
    return [each for each in returned if isinstance(each, kind)]


def takes_arguments(
    function: Any, arguments: Sequence[Any], keywords: Mapping[Any, Any] = MappingProxyType({})
) -> bool:
    """Return whether a function can be called with these arguments and keywords."""
    try:
        inspect.signature(function).bind(*arguments, **keywords)
    except (TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True)
class BatchForm:
    """The form in which a file's `batch` returns inputs and targets, and the model takes them."""

    has_no_targets: bool = False  # the model takes all of the batch
    is_one_argument: bool = False  # the inputs are one argument, although they are a list or dict
    joins_targets: bool = False  # the model takes the targets after the inputs


def are_alike_dicts(entries: Sequence[Any]) -> bool:
    """Return whether all entries are dictionaries with the same keys."""
    if not all(isinstance(entry, Mapping) for entry in entries):
        return False
    return all(entry.keys() == entries[0].keys() for entry in entries)


def describe_unclear_loss(what: str, values: Mapping[Any, Any], terms: LossTerms) -> str:
    """Return why the loss in a dictionary is unclear, with the keys, and what to return instead.

    `what` returned the dictionary.
    """
    if terms.counted:
        reason = (
            f"by their keys {join_keys(terms.counted)} would be the loss, and "
            f"{join_keys(terms.unclear)} may be a part of it, too"
        )
    elif terms.unclear:
        reason = f"no key has loss in it, and {join_keys(terms.unclear)} may be parts of it"
    else:
        reason = "none of them is a number that is trained"
    keys = join_keys([str(key) for key in values])
    hint = "return the total under the key `loss`, and detach what is only logged"
    return f"{what} returned a dict of {keys}: {reason}; {hint}"


def join_keys(keys: Sequence[str]) -> str:
    """Return keys as a message names them."""
    return ", ".join(f"`{key}`" for key in keys) or "nothing"


class UserFile:
    """A user's file: it calls the functions there by name, each from the same random seeds."""

    def __init__(
        self,
        file: str,
        seed_framework: Callable[[int], object],
        array_name: str,
        batch_types: Any,
        loss_types: Any,
    ) -> None:
        """Seed the generators and import the file.

        Args:
            file: The path of the file.
            seed_framework: Seeds the framework's generators. Python's and NumPy's are seeded here.
            array_name: How messages call the framework's arrays, such as `tensor`.
            batch_types: The classes of arrays that `batch` may return, as `isinstance` takes them.
            loss_types: The classes of arrays that a loss may be.
        """
        self.file = file
        self.seed_framework = seed_framework
        self.array_name = array_name
        self.batch_types = batch_types
        self.loss_types = loss_types
        self.form = BatchForm()
        self.call: Any = None  # what the newest model is called by, to ask which arguments it takes
        # in JAX: the tree of the model's weights, and the function that takes them, if it has any
        self.weight_tree: Any = None
        self.function: Any = None
        # in JAX: whether the function takes a sample, and no batch; None until it is found out
        self.takes_one_sample: bool | None = None
        self.loss_terms = LossTerms()  # of the newest loss that was added up
        self.takes_batch = False  # whether the model takes a batch as a whole, to train on it
        announce("import of the file")
        # the import may draw random numbers, as for a teacher, and must draw the same everywhere
        self.seed_all()
        self.module = load_file(file)

    def __contains__(self, name: str) -> bool:
        return hasattr(self.module, name)

    def has_split(self) -> bool:
        """Return whether the file has a function `split`, and not merely a value."""
        return callable(getattr(self.module, "split", None))

    def locate(self, name: str) -> str:
        """Return `file:line` of the definition of a name."""
        return f"{self.file}:{list_definitions(self.file).get(name, 1)}"

    def get(self, name: str) -> Any:
        """Return the file's object of this name. Raises Fault if it has no such object."""
        if name not in self:
            raise Fault(f"{self.file} has no `{name}`; docs/try.md says what the file needs")
        return getattr(self.module, name)

    def call_seeded(self, name: str, *arguments: Any) -> Any:
        """Call a function of the file, from the same seeds each time. Raises Fault."""
        announce(f"{name}()")
        self.seed_all()
        return self.get(name)(*arguments)

    def seed_all(self) -> None:
        """Seed the generators of Python, NumPy and the framework."""
        random.seed(SEED)
        np.random.seed(SEED)
        self.seed_framework(SEED)

    def fault(self, name: str, what: str) -> Fault:
        """Return an error about a function of the file, with its place and the text `what`."""
        return Fault(f"{self.locate(name)}: {what}")

    def make_model(self, modules: type | tuple[type, ...]) -> Any:
        """Return the model that `model()` makes. Raises Fault if `model` is itself a module."""
        model = self.get("model")
        if isinstance(model, modules):
            raise self.fault(
                "model",
                f"`model` is {describe_type(model)}: it must be a function, or a class, "
                f"that makes a new model each time, as in `def model(): return ...`",
            )
        instance = self.call_seeded("model")
        has_other_step = self.has_step() or hasattr(instance, "training_step")
        if isinstance(instance, modules) and not has_other_step:
            self.check_can_be_called(instance, modules)
        if isinstance(instance, tuple) and len(instance) == 2:  # (weights, apply) of JAX
            _weights, self.call = instance
        else:
            methods = [getattr(type(instance), name, None) for name in CALLED]
            self.call = next((method for method in methods if method), None)
        return instance

    def check_can_be_called(self, model: Any, modules: type | tuple[type, ...]) -> None:
        """Raise Fault if a model has no forward pass of its own, as a holder of two networks has.

        `modules` are the framework's base classes, whose forward pass only raises an error.
        """
        bases = modules if isinstance(modules, tuple) else (modules,)
        for name in CALLED:
            inherited = [getattr(base, name, None) for base in bases]
            has_method = getattr(type(model), name, None) not in (None, *inherited)
            if has_method or name in getattr(model, "__dict__", {}):
                return
        raise self.fault(
            "model",
            f"{describe_type(model)} has no forward pass of its own, which would get the inputs: "
            "write one that returns the output or the loss, or write your training step, as of a "
            f"GAN, as {STEP}, which returns its loss",
        )

    def make_batch(self, size: int) -> tuple[Any, Any]:
        """Return inputs and targets as trees of arrays, without targets if the inputs have them.

        Raises Fault if `batch` returned anything else.
        """
        returned = self.call_seeded("batch", size)
        form = self.find_form(returned, size)
        if form is None:
            what = describe_type(returned)
            if isinstance(returned, tuple | list):
                what = f"{what} of {len(returned)}"
            raise self.fault(
                "batch",
                f"batch(n) must return (inputs, target), and it returned {what}; for a model that "
                "takes several, inputs is a tuple or, of keywords, a dict of "
                f"{self.array_name}s",
            )
        self.form = form
        inputs, targets = (returned, None) if form.has_no_targets else returned
        expected = f"batch(n) must give {self.array_name}s"
        if not list_arrays(inputs):
            kind = describe_type(inputs)
            raise self.fault("batch", f"{expected}, and an input has none: it is {kind}")
        for what, tree in (("an input", inputs), ("a target", targets)):
            for array in list_arrays(tree):
                if not isinstance(array, self.batch_types):
                    kind = describe_type(array)
                    raise self.fault("batch", f"{expected}, and {what} has {kind}")
        return self.as_arguments(returned)

    def find_form(self, returned: Any, size: int) -> BatchForm | None:
        """Return the form of a batch of `size` samples, or None if it is no batch.

        A pair is inputs and targets; but a list of two dictionaries with the same keys is a list of
        two samples. Anything else is a whole batch that the model takes: a dictionary, an array, an
        object of a package, a list of samples or, if the model computes the loss or the file has
        its own step, a tuple of another length.
        """
        if self.takes_batch:
            is_spread = are_arguments(returned) and not is_list_of_samples(returned, size)
            is_named = isinstance(returned, Mapping)
            return BatchForm(has_no_targets=True, is_one_argument=not is_spread and not is_named)
        if not isinstance(returned, tuple | list):
            if not list_arrays(returned):
                return None
            return BatchForm(has_no_targets=True, is_one_argument=self.takes_dict(returned))
        computes_loss = "loss" not in self and not self.has_step()
        if len(returned) == 2 and not are_alike_dicts(returned):
            inputs, targets = returned
            is_sample_list = self.is_sample_list(inputs, size)
            joins_targets = computes_loss and self.takes_both(inputs, targets, is_sample_list)
            is_one_argument = is_sample_list or self.takes_dict(inputs)
            return BatchForm(
                is_one_argument=is_one_argument or (joins_targets and not are_arguments(inputs)),
                joins_targets=joins_targets,
            )
        is_sample_list = self.is_sample_list(returned, size)
        if is_sample_list or computes_loss or self.has_step():
            return BatchForm(has_no_targets=True, is_one_argument=is_sample_list)
        return None

    def is_sample_list(self, inputs: Any, size: int) -> bool:
        """Return whether inputs are a list of `size` samples, which the model takes as one.

        As many tensors may be the model's arguments by chance.
        """
        if not is_list_of_samples(inputs, size):
            return False
        takes_each = takes_arguments(self.call, ["self", *inputs])
        return not takes_each or takes_arguments(self.call, ["self", inputs])

    def takes_dict(self, inputs: Any) -> bool:
        """Return whether the newest model takes a dictionary as one argument.

        It does not where its keys are keywords of the model.
        """
        if not isinstance(inputs, Mapping) or takes_arguments(self.call, ["self"], inputs):
            return False
        return takes_arguments(self.call, ["self", inputs])

    def takes_both(self, inputs: Any, targets: Any, is_list: bool) -> bool:
        """Return whether the newest model takes inputs and targets, one after the other.

        `is_list` says that the inputs are one list of samples.
        """
        if targets is None or self.call is None or isinstance(inputs, Mapping):
            return False
        is_spread = are_arguments(inputs) and not is_list
        arguments = [*inputs, targets] if is_spread else [inputs, targets]
        return takes_arguments(self.call, ["self", *arguments])

    def as_arguments(self, returned: Any) -> tuple[Any, Any]:
        """Return inputs and targets of a batch in the file's form, as the model gets them."""
        inputs, targets = (returned, None) if self.form.has_no_targets else returned
        if self.form.is_one_argument:
            inputs = (inputs,)  # as detectors take a list of images
        if self.form.joins_targets:
            return (*inputs, targets), None
        return inputs, targets

    def as_written(self, batch: tuple[Any, Any]) -> Any:
        """Return a batch in the form in which the file's `batch` returned it."""
        inputs, targets = batch
        if self.form.joins_targets:
            *arguments, targets = inputs
            inputs = tuple(arguments)
        if self.form.is_one_argument:
            inputs = inputs[0]
        return inputs if self.form.has_no_targets else (inputs, targets)

    def takes_model(self) -> bool:
        """Return whether the file's `optimizer` takes the model, and not its parameters."""
        function = getattr(self.module, "optimizer", None)
        if not inspect.isfunction(function):
            return False
        return next(iter(inspect.signature(function).parameters), "") in MODEL_NAMES

    def has_step(self) -> bool:
        """Return whether the file has its own training step, `step(model, batch, optimizer)`.

        A function with another number of arguments is for something else.
        """
        step = getattr(self.module, "step", None)
        if not callable(step) or inspect.isclass(step):
            return False
        parameters = inspect.signature(step).parameters.values()
        required = [
            parameter for parameter in parameters if parameter.default is inspect.Parameter.empty
        ]
        return len(required) == STEP_ARGUMENTS

    def split_batch(self, batch: tuple[Any, Any], parts: int, size: int) -> list[tuple[Any, Any]]:
        """Return the micro-batches of a batch of `size` samples, as (inputs, targets).

        If the file has a function `split(batch, parts)`, this function cuts the batch: it gets what
        `batch(n)` returns, and returns a list of `parts` such batches. Raises Fault if `split` does
        not return `parts` batches, each a pair where `batch(n)` returns inputs and targets. `size`
        is used only without `split`.
        """
        if not self.has_split():
            inputs, targets = batch
            return list(zip(split(inputs, parts, size), split(targets, parts, size), strict=True))
        returned = self.get("split")(self.as_written(batch), parts)
        micro_batches = list(returned) if isinstance(returned, Iterable) else [returned]
        call = f"split(batch, {parts})"
        if len(micro_batches) != parts:
            count = len(micro_batches)
            raise self.fault(
                "split", f"{call} must return {parts} batches, and it returned {count}"
            )
        result: list[tuple[Any, Any]] = []
        for part in micro_batches:
            is_pair = isinstance(part, tuple | list) and len(part) == 2
            if not self.form.has_no_targets and not is_pair:
                what = f"and one is {describe_type(part)}"
                raise self.fault(
                    "split", f"{call} must return batches as batch(n) returns them, {what}"
                )
            result.append(self.as_arguments(part))
        return result

    def explain_uncut(self, inputs: Any, size: int) -> str:
        """Return why a batch of `size` samples cannot be cut into micro-batches, or "" if it can.

        It does not tell whether the parts add up to the batch.
        """
        if self.has_split() or can_split(inputs, size):
            return ""
        return (
            f"no input of batch({size}) has {size} samples along its first axis: "
            "write split(batch, k), which returns k smaller batches"
        )

    def compute_loss(self, output: Any, target: Any) -> Any:
        """Return the loss, an array of one number. Raises Fault.

        It is returned by the file's `loss`; without that function it is found in the model's
        output. Values that are only logged may follow the loss in a tuple, or be entries next to
        the key `loss`.
        """
        if "loss" in self:
            return self.read_loss("loss", self.get("loss")(output, target))
        loss = find_loss(output)
        if loss is None:
            raise self.fault(
                "model",
                f"the file has no `loss`, and the model's output, {describe_type(output)}, is no "
                "loss and has no `.loss`: write loss(output, target), or give the model its "
                "labels among the inputs",
            )
        return self.read_loss("model", loss)

    def make_step(self, model: Any, batch: tuple[Any, Any], optimizer: Any) -> Any:
        """Make the file's own training step, and return its loss. Raises Fault.

        The loss is an array of one number, or a number of Python's.
        """
        returned = self.get("step")(model, self.as_written(batch), optimizer)
        return self.read_loss("step", returned)

    def read_loss(self, source: str, returned: Any) -> Any:
        """Return the loss in what a function of LOSS_SOURCES returned.

        The losses in a dictionary without a total are added up. Raises Fault if there is no array
        of one number.
        """
        loss = unwrap_loss(returned)
        if isinstance(loss, Mapping):
            loss = self.add_losses(source, loss)
        if source == "step" and isinstance(loss, int | float):
            return loss
        kind = describe_type(loss)
        if isinstance(loss, self.loss_types):
            if math.prod(loss.shape) == 1:
                return loss
            kind = f"{kind} of shape {tuple(loss.shape)}"
        expected = f"one {self.array_name} of one number"
        raise self.fault(
            source, f"{LOSS_SOURCES[source]} must return {expected}, and it returned {kind}"
        )

    def add_losses(self, source: str, values: Mapping[Any, Any]) -> Any:
        """Return the sum of the losses in a dictionary that a function of LOSS_SOURCES returned.

        What a `step` returns is not trained any more: all of its numbers are added up where none
        has "loss" in its key. Raises Fault if there is none, or if it is unclear which they are.
        """
        terms = find_loss_terms(values)
        if source == "step":
            terms = LossTerms(terms.counted or terms.unclear or terms.logged)
        if terms.unclear or not terms.counted:
            raise self.fault(source, describe_unclear_loss(LOSS_SOURCES[source], values, terms))
        self.loss_terms = terms
        return sum(value for key, value in values.items() if str(key) in terms.counted)
