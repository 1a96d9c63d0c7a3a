"""Print which errors are called out of memory: before a limit is enforced, under it, and after."""

import json

from framebench.instruments import limits

ERRORS = {
    "Jittor on oneDNN": RuntimeError("could not create a primitive"),
    "JAX on oneDNN": RuntimeError("Check failed: dnnl_sgemm(...) == dnnl_success"),
    "JAX on YNNPACK": RuntimeError("INTERNAL: YNNPACK operation failed: error"),
    "MemoryError": MemoryError(),
    "another error": ValueError("planted"),
}


def list_out_of_memory():
    names = []
    for name, error in ERRORS.items():
        if limits.is_out_of_memory(error, limits.is_enforced()):
            names.append(name)
    return names


before = list_out_of_memory()
limits.limit_growth(2**30)
under = list_out_of_memory()
limits.limit_growth(None)
print(json.dumps({"before": before, "under": under, "after": list_out_of_memory()}))
