"""What the libraries returned or said on real GPUs, as their users printed it in public.

Nothing here is of this project.

Only what the code reads is kept; each entry names where it can be read in whole.
"""

from __future__ import annotations

# torch.cuda.memory_stats() on a GPU of 15.78 GiB. The thread has several printouts: active and
# allocated bytes are of one, allocations of another; reserved bytes, segments, retries and failures
# are of one that may be a third.
TORCH_STATS_OF = "NVIDIA/MinkowskiEngine, issue 359"
TORCH_STATS = {
    "active_bytes.all.current": 1185385472,
    "active_bytes.all.peak": 15763564032,
    "allocated_bytes.all.current": 1185385472,
    "allocated_bytes.all.peak": 15763564032,
    "allocation.all.allocated": 4869,
    "allocation.all.current": 320,
    "allocation.all.peak": 753,
    "num_alloc_retries": 35,
    "num_ooms": 3,
    "reserved_bytes.all.current": 50331648,
    "reserved_bytes.all.peak": 15890120704,
    "segment.all.current": 24,
    "segment.all.peak": 58,
}

# Device.memory_stats() on a GPU, of which JAX may have 11.8 GiB, for programs of growing size.
JAX_STATS_OF = "cabouman/mbirjax, mbirjax/memory_stats.py"
JAX_STATS = [
    {
        "num_allocs": 63,
        "bytes_in_use": in_use,
        "peak_bytes_in_use": peak,
        "largest_alloc_size": largest,
        "bytes_limit": 12701761536,
        "bytes_reserved": 0,
        "peak_bytes_reserved": 0,
        "largest_free_block_bytes": 0,
        "pool_bytes": pool,
        "peak_pool_bytes": pool,
    }
    for in_use, peak, largest, pool in (
        (14983168, 2431167744, 2415922432, 3228616192),
        (22846976, 4251233024, 4228123904, 12701761536),
        (42659328, 8297577216, 8254655744, 12701761536),
    )
]

# NVML in a container with process numbers of its own: the process calls itself 19 there, NVML lists
# it by the host's number.
NVML_IN_A_CONTAINER_OF = "NVIDIA/nvidia-docker, issue 1483"
NVML_IN_A_CONTAINER = {"own": 19, "listed": [(40170, 185 * 2**20)]}

# Messages of running out of memory, by where they were posted.
OUT_OF_MEMORY = {
    "kerrj/lerf, issue 73": "CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total "
    "capacty of 23.65 GiB of which "
    "1.66 GiB is free.",
    "murong-xu/CADS, issue 4": "CUDA out of memory. Tried to allocate 22.78 GiB. GPU 0 has a "
    "total capacity of 31.47 GiB",
    "deepbeepmeep/Wan2GP, issue 1083": "CUDA error: out of memory\nCUDA kernel errors might be "
    "asynchronously reported",
    "nerdyrodent/VQGAN-CLIP, issue 92": "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
    "`cublasCreate(handle)",
    "amdegroot/ssd.pytorch, issue 33": "CUDNN_STATUS_ALLOC_FAILED",
    "jax-ml/jax, issue 13428": "RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
    "6291456 bytes.",
    "ecmwf-lab/ai-models-graphcast, issue 18": "RESOURCE_EXHAUSTED: Failed to allocate request "
    "for 2.99GiB (3206250496B) on "
    "device ordinal 0",
    "jax-ml/jax, issue 4994": "Internal: Failed to load in-memory CUBIN: "
    "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    "Jittor/jittor, issue 602": "[f 1121 22:05:43.125153 88 mem_info.cc:272] \n"
    "*******************\nGPU memory is overflow, "
    "please reduce your batch_size or data size!\nTotal: 79.33GB Used:  78.5GB",
}
# Other things that went wrong on GPUs, and that are not that.
OTHERWISE = {
    "Jittor/jittor, issue 396": "Peek CUDA error at cuda_dual_allocator.h:101  code=700( "
    "cudaErrorIllegalAddress ) "
    "_cudaLaunchHostFunc(0, &to_free_allocation, 0)",
    "Jittor/JittorLLMs, issue 180": "[f 0120 11:01:54.242000 48 compile_extern.py:247] CUDA found "
    "but cudnn is not loaded:\n"
    "Develop version of CUDNN not found",
    "jax-ml/jax, issue 4994": "Invalid argument: stream is uninitialized or in an error state",
}

# Jittor with a compiler that it does not build with.
JITTOR_BUILD_OF = "Jittor/jittor, issue 182"
JITTOR_BUILD = """In file included from /usr/local/cuda/include/cuda_runtime.h:83,
                 from <command-line>:
/usr/local/cuda/include/crt/host_config.h:129:2: error: #error -- unsupported GNU version! gcc versions later than 8 are not supported!
  129 | #error -- unsupported GNU version! gcc versions later than 8 are not supported!"""  # noqa: E501
