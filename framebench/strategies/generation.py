"""Declare what is kept of earlier tokens, where tokens are computed one after the other."""

from __future__ import annotations

from framebench.strategies.strategy import Native, Strategy, Unsupported

ROWS = (
    Strategy(
        name="static_cache",
        scenarios=("generate",),
        axis="cache",
        summary="keys and values of all tokens kept, in arrays as long as the sequence will be",
        effect=(
            "tokens computed; bytes of the cache by the formula; arrays that stay where they are"
        ),
        support=dict(
            torch=Native(
                "keys and values written into tensors that are there; attention sees the "
                "part that is filled"
            ),
            jax=Native(
                "lax.dynamic_update_slice into arrays that the step is given to be "
                "written over; attention masks what is not filled"
            ),
            jittor=Native("keys and values assigned to slices of Vars"),
        ),
    ),
    Strategy(
        name="growing_cache",
        scenarios=("generate",),
        axis="cache",
        summary="keys and values of all tokens kept, made longer by each token",
        effect="tokens computed; bytes of the cache by the formula; concatenations",
        support=dict(
            torch=Native("torch.cat"),
            jax=Unsupported(
                "the arrays of a compiled step keep their shapes: each length would be a "
                "program of its own"
            ),
            jittor=Native("jt.concat"),
        ),
    ),
    Strategy(
        name="no_cache",
        scenarios=("generate",),
        axis="cache",
        summary="nothing kept: each token computes all those before it anew",
        effect="tokens computed",
        support=dict(
            torch=Native("the model is called with the sequence so far"),
            jax=Native(
                "the model is called with the whole sequence, as the compiled step has one shape"
            ),
            jittor=Native("the model is called with the sequence so far"),
        ),
    ),
)
