"""Article A, what fusion does to the same operators: their kernels, and the memory they allocate.

The article prints no listing. The operators go through each number once, so that they compute the
same whether they are fused or not. A matmul or a convolution would not: without fusion Jittor
multiplies broadcast tensors.
"""

import json

import jittor as jt

LAYERS = 8


def evaluate(x):
    """Return the result of a chain of operators, two in each layer."""
    for layer in range(LAYERS):
        x = jt.tanh(x * (1 + 0.1 * layer))
    return x


def count_kernels(x, no_fuse):
    """Return the kernels that an evaluation executes."""
    with jt.flag_scope(no_fuse=no_fuse), jt.profile_scope() as rows:
        evaluate(x).sync()
    return sum(int(row[2]) for row in rows[1:])  # the first row is a heading


def count_bytes(x, no_fuse):
    """Return the bytes that an evaluation allocates, by Jittor's own counter."""
    with jt.flag_scope(no_fuse=no_fuse, use_stat_allocator=1, use_sfrl_allocator=0):
        before = jt.flags.stat_allocator_total_alloc_byte
        evaluate(x).sync()
        return jt.flags.stat_allocator_total_alloc_byte - before


x = jt.rand(1024, 1024)
x.sync()
found = {}
for name, no_fuse in (("fused", 0), ("unfused", 1)):
    count_kernels(x, no_fuse)  # compiles
    found[f"kernels_{name}"] = count_kernels(x, no_fuse)
    found[f"bytes_{name}"] = count_bytes(x, no_fuse)
print(json.dumps(found))
