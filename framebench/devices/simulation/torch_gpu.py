"""What CUDA's choices depend on: the GPU, the release of PyTorch and its libraries."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace

from framebench.devices.catalog import Device

RULES_OF_RELEASE = (2, 13)  # of PyTorch, in whose sources the rules of this folder were read
CUDNN = 91700  # its release in PyTorch's wheels, as `torch.backends.cudnn.version` prints it
# Bytes of the workspace of cuBLASLt for matmuls with a bias: `parseCUDABlasLtWorkspaceSize` in
# ATen/cuda/CublasHandlePool.cpp.
BLAS_LT_WORKSPACE = 1 << 20
OLDEST_CHIP = (7, 5)  # the oldest that the libraries of CUDA 13 support
# Not in the catalog. At 1 or 9 GHz 3 of 204 choices for ResNet-50 and U-Net 3D on an H200 differ,
# by 2 MiB at most
MEMORY_KHZ = 3_000_000
DRIVER = 13000  # the CUDA of the driver, which the wheels' cuDNN asks for
BLOCKS = 32  # at once on a core; no choice depends on it
# the same on each GPU since Volta: "Technical specifications per compute capability" in NVIDIA's
# CUDA programming guide
WARP = 32  # threads
MOST_THREADS = 1024  # of a block
SHARED_MEMORY_PER_BLOCK = 49152  # bytes, unless a kernel opts into more
REGISTERS_PER_BLOCK = 65536


@dataclass(frozen=True)
class Gpu:
    """One GPU under one release of PyTorch."""

    device: Device
    release: tuple[int, int] = RULES_OF_RELEASE
    largest_workspaces: bool = False  # of each convolution: that of the algorithm that takes most
    blas_takes: bool = True  # False: CUBLAS_WORKSPACE_CONFIG=:0:0

    @property
    def capability(self) -> tuple[int, int]:
        """Return the compute capability, such as (9, 0)."""
        return self.device.compute_capability

    @property
    def properties(self) -> SimpleNamespace:
        """Return what `torch.cuda.get_device_properties` returns; sizes are in bytes."""
        major, minor = self.capability
        return SimpleNamespace(
            name=self.device.title,
            major=major,
            minor=minor,
            total_memory=self.device.memory_bytes,
            multi_processor_count=self.device.cores,
            max_threads_per_multi_processor=self.device.threads_per_core,
            L2_cache_size=self.device.l2_bytes,
            shared_memory_per_block_optin=self.device.shared_memory_per_block,
            shared_memory_per_multiprocessor=self.device.shared_memory_per_core,
            regs_per_multiprocessor=self.device.registers_per_core,
            shared_memory_per_block=SHARED_MEMORY_PER_BLOCK,
            max_threads_per_block=MOST_THREADS,
            warp_size=WARP,
            is_integrated=0,
            is_multi_gpu_board=0,
        )

    @cached_property
    def description(self) -> str:
        """Return the GPU in cuDNN's own JSON, as it describes one that is there.

        The text is empty for a GPU that cuDNN does not know.
        """
        if self.capability < OLDEST_CHIP:
            return ""
        major, minor = self.capability
        return json.dumps(
            {
                "deviceName": self.device.title,
                "deviceVer": 100 * major + 10 * minor,
                "driverVer": DRIVER,
                "cudaDeviceId": 0,
                "pciDeviceId": 0,
                "isTccDriver": 0,
                "supportCoopLaunch": 1,
                "multiProcessorCount": self.device.cores,
                "warpSize": WARP,
                "totalGlobalMem": self.device.memory_bytes,
                "l2CacheSize": self.device.l2_bytes,
                "smClockRateKHz": int(self.device.clock_ghz * 1e6),
                "memClockRateKHz": MEMORY_KHZ,
                "maxThreadsPerBlock": MOST_THREADS,
                "maxThreadsPerSM": self.device.threads_per_core,
                "maxCtasPerSM": BLOCKS,
                "regsPerBlock": REGISTERS_PER_BLOCK,
                "maxRegistersPerSM": self.device.registers_per_core,
                "maxSharedMemoryPerBlock": SHARED_MEMORY_PER_BLOCK,
                "maxSharedMemoryPerBlockOptin": self.device.shared_memory_per_block,
                "reservedSharedMemoryPerBlock": 1024,
                "maxGridSize": [2**31 - 1, 65535, 65535],
                "maxBlockSize": [1024, 1024, 64],
            }
        )

    @property
    def prefers_cudnn_attention(self) -> bool:
        """Return whether cuDNN's attention comes first; else it comes last, after math.

        `check_prefer_cudnn_attention` in transformers/cuda/sdp_utils.cpp: in 2.9, and since 2.11,
        whose wheels are the first with the cuDNN that 2.10 asks for.
        """
        has_preference = self.release == (2, 9) or self.release >= (2, 11)
        return has_preference and self.capability[0] in (9, 10)

    @property
    def efficient_takes_grouped_heads(self) -> bool:
        """Return whether the efficient kernel takes grouped heads, as the flash kernel always does.

        `supports_gqa` in sdp_utils.cpp: it does since PyTorch 2.11.
        """
        return self.release >= (2, 11)

    @property
    def whole_operators(self) -> tuple[str, ...]:
        """Return the operators with a kernel on CUDA that other devices take apart.

        In native_functions.yaml they have `CUDA` next to `CompositeImplicitAutograd`. RMS norm has
        its kernel since PyTorch 2.9.
        """
        if self.release < (2, 9):
            return ("mish_backward",)
        return ("mish_backward", "_fused_rms_norm")

    @property
    def blas_workspace(self) -> int:
        """Return the bytes of each handle of cuBLAS.

        `parseChosenWorkspaceSize` in ATen/cuda/CublasHandlePool.cpp.
        """
        if not self.blas_takes:
            return 0
        if self.capability == (9, 0):
            return 32 << 20
        return 2 * (4096 << 10) + 8 * (16 << 10)

    @property
    def caches_lt_workspace(self) -> bool:
        """Return whether a handle keeps BLAS_LT_WORKSPACE; older releases take one per matmul.

        See CUDABlas.cpp.
        """
        return self.release >= (2, 7)
