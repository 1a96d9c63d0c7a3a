"""What is kept of earlier tokens, where tokens are computed one after the other."""

from __future__ import annotations

from framebench.strategies.strategy import Native, Strategy, Unsupported, cells

ROWS = (
    Strategy(
        "static_cache", ("generate",), "cache", "keys and values of all tokens kept, in arrays as long as the sequence will be",
        "tokens computed; bytes of the cache by the formula; arrays that stay where they are",
        cells(
            Native("keys and values written into tensors that are there; attention sees the part that is filled"),
            Native("lax.dynamic_update_slice into arrays that the step is given to be written over; attention masks what is not filled"),
            Native("keys and values assigned to slices of Vars"),
        ),
    ),
    Strategy(
        "growing_cache", ("generate",), "cache", "keys and values of all tokens kept, made longer by each token",
        "tokens computed; bytes of the cache by the formula; concatenations",
        cells(
            Native("torch.cat"),
            Unsupported("the arrays of a compiled step keep their shapes: each length would be a program of its own"),
            Native("jt.concat"),
        ),
    ),
    Strategy(
        "no_cache", ("generate",), "cache", "nothing kept: each token computes all those before it anew", "tokens computed",
        cells(
            Native("the model is called with the sequence so far"),
            Native("the model is called with the whole sequence, as the compiled step has one shape"),
            Native("the model is called with the sequence so far"),
        ),
    ),
)  # fmt: skip
