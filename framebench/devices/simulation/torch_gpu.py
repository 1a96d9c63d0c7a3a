"""What CUDA's choices depend on: the card, the release of PyTorch and its libraries. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Device(Protocol):
    """What a simulation asks of a device of the catalog."""

    @property
    def memory_bytes(self) -> int: ...

    @property
    def compute_capability(self) -> tuple[int, int]: ...

    @property
    def cores(self) -> int: ...

    @property
    def threads_per_core(self) -> int: ...


@dataclass(frozen=True)
class Card:
    """One GPU under one release."""

    capability: tuple[int, int]
    release: tuple[int, int] = (2, 13)
    described: str = ""  # as cuDNN is told of it; empty: it is not asked
    cudnn: int = 91700  # as `torch.backends.cudnn.version` prints it
    cores: int = 0  # streaming multiprocessors; 0: what depends on them is left out
    threads_per_core: int = 0
    blas_takes: bool = True  # False: CUBLAS_WORKSPACE_CONFIG=:0:0

    @property
    def prefers_cudnn_attention(self) -> bool:
        """`check_prefer_cudnn_attention` in transformers/cuda/sdp_utils.cpp: in 2.9, and since 2.11, whose wheels are the first
        with the cuDNN that 2.10 asks for. Else cuDNN comes last, after math."""
        released = self.release == (2, 9) or (self.release >= (2, 11) and self.cudnn > 91500)
        return released and self.capability[0] in (9, 10)

    @property
    def grouped_heads_everywhere(self) -> bool:
        """Whether the efficient kernel takes fewer heads of keys than of queries (`supports_gqa` in sdp_utils.cpp)."""
        return self.release >= (2, 11)

    @property
    def blas_workspace(self) -> int:
        """Bytes of each handle of cuBLAS: `parseChosenWorkspaceSize` in ATen/cuda/CublasHandlePool.cpp."""
        if not self.blas_takes:
            return 0
        return 32 << 20 if self.capability == (9, 0) else 2 * (4096 << 10) + 8 * (16 << 10)

    @property
    def blas_lt_workspace(self) -> int:
        """Bytes for products with a bias: `parseCUDABlasLtWorkspaceSize` in the same file."""
        return 1 << 20

    @property
    def keeps_lt_workspace(self) -> bool:
        """It has a place of its own per handle; in older releases it is taken anew for every product (CUDABlas.cpp)."""
        return self.release >= (2, 7)
