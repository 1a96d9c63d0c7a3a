"""Article A, what fusion does to the same operators: their kernels, and the memory they allocate.

The article prints no listing. The operators go through each number once, so that they compute the
same whether they are fused or not. A matmul or a convolution would not: oneDNN's kernels replace
it only where it is fused. The control leaves fusion on and waits for each operator's result, so
that there is nothing to fuse.
"""

import json

import jittor as jt

LAYERS = 8


def evaluate(x, one_by_one):
    """Return the result of a chain of operators, two in each layer."""
    for _ in range(LAYERS):
        for operator in (jt.sin, jt.tanh):
            x = operator(x)
            if one_by_one:
                x.sync()
    return x


def count_kernels(x, no_fuse, one_by_one):
    """Return the kernels that an evaluation executes."""
    with jt.flag_scope(no_fuse=no_fuse), jt.profile_scope() as rows:
        evaluate(x, one_by_one).sync()
    return sum(int(row[2]) for row in rows[1:])  # the first row is a heading


def count_bytes(x, no_fuse, one_by_one):
    """Return the bytes that an evaluation allocates, by Jittor's own counter."""
    with jt.flag_scope(no_fuse=no_fuse, use_stat_allocator=1, use_sfrl_allocator=0):
        before = jt.flags.stat_allocator_total_alloc_byte
        evaluate(x, one_by_one).sync()
        return jt.flags.stat_allocator_total_alloc_byte - before


x = jt.rand(1024, 1024)
x.sync()
found = {}
for name, no_fuse, one_by_one in (
    ("fused", 0, False),
    ("unfused", 1, False),
    ("one_by_one", 0, True),
):
    count_kernels(x, no_fuse, one_by_one)  # compiles
    found[f"kernels_{name}"] = count_kernels(x, no_fuse, one_by_one)
    found[f"bytes_{name}"] = count_bytes(x, no_fuse, one_by_one)
print(json.dumps(found))
