"""How Jittor switches on the strategies of `suite/catalog/steps.py`, and what proves that they were on. See `base.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jittor as jt
import numpy as np
from jittor import Module, Var, nn

from framebench.adapters import rounding
from framebench.adapters.base import Evidence, Proof, Switches
from framebench.adapters.jittor.adapter import JittorAdapter
from framebench.adapters.jittor.checkpoint import checkpointed

switch = Switches()


def floats(e: Evidence) -> set[str]:
    """The floating-point types that occurred in the graph."""
    return {dtype for dtype in e["variable_dtypes"] if "float" in dtype}


def errors_of_products() -> dict[str, float]:
    """By the flags in force."""

    def called(operator: Callable[[Var, Var], Var]) -> rounding.Multiply:
        return lambda a, b: operator(jt.array(a), jt.array(b)).numpy()

    return rounding.errors(called(jt.matmul), called(nn.conv2d))


@switch
def fp32(run: JittorAdapter) -> Proof:
    """Newer cards may round convolutions to TensorFloat-32 by cuDNN's default, which Jittor leaves as it is."""

    def proof(e: Evidence) -> bool:
        e |= errors_of_products()
        return floats(e) == {"float32"} and rounding.exact(e)

    return proof


@switch
def tf32(run: JittorAdapter) -> Proof:
    """For convolutions the flag allows cuDNN float16 as well, which has as many bits."""
    jt.flags.use_tensorcore = 1

    def proof(e: Evidence) -> bool:
        e |= errors_of_products()
        return floats(e) == {"float32"} and rounding.rounded(e)

    return proof


@switch
def half(run: JittorAdapter, dtype: str) -> Proof:
    """Sums are still taken in float32, which no setting but amp_level 6 changes."""
    run.dtype = dtype

    def proof(e: Evidence) -> bool:
        e["weight_dtypes"] = sorted({str(p.dtype) for p in run.model.parameters()})
        return e["weight_dtypes"] == [dtype] == [str(run.output.dtype)] and dtype in floats(e)

    return proof


# at each level: the exponential of a float16 number, the square of a float32 array from outside, the array itself
AMP_TYPES = {
    3: ("float16", "float32", "float32"),
    4: ("float32", "float16", "float32"),
    5: ("float32", "float16", "float16"),
    6: ("float16", "float16", "float16"),
}


def amp_types() -> tuple[str, ...]:
    """The types that Jittor now chooses; without a level the row of AMP_TYPES would be float32 throughout."""
    half, single = jt.float16([1, 2]), jt.array(np.ones(2, np.float32))
    return str(half.exp().dtype), str((single * single).dtype), str(single.dtype)


@switch
def amp_level(run: JittorAdapter, level: int) -> Proof:
    """Set for good, as a user would: level 3 concerns what is float16 already, from 5 on arrays made by `jt.array` are float16
    too. In float16 AdamW's epsilon is zero, and on a CPU the backward pass of max pooling does not compile."""
    jt.flags.amp_level = level

    def proof(e: Evidence) -> bool:
        e["weight_dtypes"] = sorted({str(p.dtype) for p in run.model.parameters()})
        e["types_chosen"] = amp_types()
        return e["types_chosen"] == AMP_TYPES[level] and ("float16" in floats(e)) == (level > 3)

    return proof


@switch
def checkpoint(run: JittorAdapter, every: int = 1) -> Proof:
    chosen: list[Module] = []

    def attach(model: Module) -> None:
        chosen[:] = run.model_module.blocks_of(model)[::every]
        places = {id(block) for block in chosen}
        model.remat = lambda block, *xs: (checkpointed if id(block) in places else Module.__call__)(block, *xs)

    def proof(e: Evidence) -> bool:
        """A block below every trained weight has nothing to recompute for."""
        again = [b for b in chosen if any(not p.is_stop_grad() for p in b.parameters())]
        return bool(again) and e["block_runs"] == run.micro * (e["blocks"] + len(again))

    run.on_model.append(attach)
    return proof


@switch
def accumulate(run: JittorAdapter) -> Proof:
    return lambda e: e["forward_passes"] == run.micro and e["samples_per_pass"] == [run.case.batch // run.micro]


@switch
def autotune_off(run: JittorAdapter) -> Proof:
    """The size of the table of algorithms that were tried; once it is full, a heuristic chooses."""
    jt.cudnn.set_algorithm_cache_size(0)

    def proof(e: Evidence) -> bool:
        """Jittor says so when a trial fills the table. Given room for one entry, a new convolution fills it only if no step has
        tried any out."""
        x, w = (jt.array(np.ones(shape, np.float32)) for shape in ((1, 8, 6, 6, 6), (8, 8, 3, 3, 3)))
        jt.cudnn.set_algorithm_cache_size(1)
        with jt.log_capture_scope() as said:
            nn.conv3d(x, w).sync()
        jt.cudnn.set_algorithm_cache_size(0)
        e["tables_filled_by_one_trial"] = sum("algorithm cache is full" in line["msg"] for line in said)
        return e["tables_filled_by_one_trial"] == 1

    return proof


@switch
def rewrite(run: JittorAdapter) -> Proof:
    run.build_options["rewrite"] = True
    return lambda e: e["loops_3d"] == 0 and e["onednn_convolutions"] > 0


@switch
def no_fuse(run: JittorAdapter) -> Proof:
    jt.flags.no_fuse = 1
    return lambda e: e["kernels"] > 0 == e["fused_kernels"]


@switch
def no_onednn(run: JittorAdapter) -> Proof:
    """Decided by the environment, before Jittor is imported."""

    def proof(e: Evidence) -> bool:
        e["onednn_mapped"] = "mkldnn" in Path("/proc/self/maps").read_text()
        return e["onednn_convolutions"] == e["onednn_products"] == 0 and not e["onednn_mapped"]

    return proof


@switch
def not_lazy(run: JittorAdapter) -> Proof:
    """Lazily, not one kernel runs before someone asks for a value."""
    jt.flags.lazy_execution = 0
    return lambda e: e["kernels_before_sync"] > 0.9 * e["kernels"]
