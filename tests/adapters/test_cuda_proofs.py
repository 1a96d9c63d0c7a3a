"""Proofs of strategies that need a GPU, with the strategy on and off.

The GPU is fake: it does what the libraries' sources say. Nothing here was recorded on a GPU.
"""

from pathlib import Path

from tests.adapters.undone import FP32_ALONE, NEITHER, TF32_ALONE
from tests.processes import run_inside

PROGRAMS = Path(__file__).parent / "programs"
TORCH = PROGRAMS / "cuda_proofs_torch.py"


def test_gpu_strategies_of_torch_are_proven_only_when_in_effect(environment):
    """Each strategy is proven as it is, and then undone in each way.

    `empty_cache` also tells how many segments were freed, and that its hook is back.
    """

    def expect_cache(proven: bool, by_call: int, by_steps: int) -> dict[str, int]:
        return {
            "proven": proven,
            "freed by the call": by_call,
            "freed by steps": by_steps,
            "hooks left": 1,
        }

    assert run_inside(environment["torch"], TORCH) == {
        "foreach": {
            "lists are not PyTorch's default here": True,
            "lists are its default, so nothing was switched on": False,
        },
        "memory_fraction": {
            "the limit is obeyed": True,
            "it is ignored": False,
            "others hold 30 GiB": False,
        },
        "empty_cache": {
            "called": expect_cache(True, by_call=4, by_steps=0),
            "not called": expect_cache(False, by_call=0, by_steps=0),
            "nothing is cached": expect_cache(False, by_call=0, by_steps=4),
            "steps free, too": expect_cache(True, by_call=4, by_steps=5),
        },
        "expandable_segments": {"all are": True, "one is": False, "there are none": False},
        "malloc_async": {
            "the driver counts": True,
            "PyTorch has segments": False,
            "nothing is counted": False,
        },
        "autotune": {"kernels are tried": True, "none are": False},
    }


OFFLOADED = PROGRAMS / "cuda_proofs_offloaded.py"


def test_offloading_in_torch_computes_the_same_and_is_proven(environment):
    """Streams that do everything at once show that the hooks and the update are right.

    They do not show that copies run next to the computation.
    """
    assert run_inside(environment["torch"], OFFLOADED) == {
        "accumulate+offload_streamed": True,
        "optimizer_offload": True,
        "accumulate+optimizer_offload": True,
        "all came back": True,
        "a stream of its own": True,
        "the stream that computes": False,
        "no copies": False,
        "no hooks": False,
        "moments on the host": True,
        "moments on the device": False,
    }


JAX = PROGRAMS / "cuda_proofs_jax.py"


def test_undone_gpu_strategies_of_jax_are_not_proven(environment):
    flags = {"XLA_FLAGS": "--xla_gpu_autotune_level=0"}
    off = run_inside(environment["jax"], JAX, "0", variables=flags)
    on = run_inside(environment["jax"], JAX, "4")

    assert off["autotune"]
    assert off["evidence"] == {"allocations_untried": 0, "allocations_tried": 20}
    assert not on["autotune"]
    assert on["evidence"] == {"allocations_untried": 20, "allocations_tried": 20}
    for proven in (off, on):
        assert (proven["no pool"], proven["a pool"]) == (True, False)
        assert (proven["driver's pool"], proven["XLA's pool"]) == (True, False)
        assert not proven["nothing counted"]


JAX_OFFLOADED = PROGRAMS / "cuda_proofs_jax_offloaded.py"


def test_a_state_that_jax_keeps_on_the_host_computes_the_same(environment):
    """XLA:CPU has one memory, whatever it is asked for: so it is not proven here."""
    found = run_inside(environment["jax"], JAX_OFFLOADED)
    assert found["same"], "the steps compute the same as plain ones"
    assert found["asked for"], "the program moves the state"
    assert found["on host"], "the state lies in host memory"
    assert found["live bytes"], "a state on the device would be counted"
    assert not found["proven"]


JITTOR = PROGRAMS / "cuda_proofs_jittor.py"


def test_undone_gpu_strategies_of_jittor_are_not_proven(environment):
    """The first four are by what the device rounds."""
    assert run_inside(environment["jittor"], JITTOR) == {
        "rounding": FP32_ALONE,
        "rounding product convolution": TF32_ALONE,
        "rounding convolution": NEITHER,
        "rounding product": NEITHER,
        "untried": True,
        "untried, ignored": False,
        **{f"level {n}": {"as it was set": True, "replaced": False} for n in (3, 4, 5, 6)},
    }
