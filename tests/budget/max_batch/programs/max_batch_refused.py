import json

from framebench.instruments import limits

vague = [
    RuntimeError("could not create a primitive"),
    RuntimeError("Check failed: dnnl_sgemm(...) == dnnl_success"),
    RuntimeError("INTERNAL: YNNPACK operation failed: error"),
]


def called_oom():
    return [
        limits.is_out_of_memory(error, limits.is_enforced())
        for error in (*vague, MemoryError(), ValueError("planted"))
    ]


before = called_oom()
limits.limit_growth(2**30)
under = called_oom()
limits.limit_growth(None)
print(json.dumps([before, under, called_oom()]))
