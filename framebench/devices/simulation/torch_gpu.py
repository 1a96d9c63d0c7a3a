"""What CUDA's choices depend on: the GPU, the release of PyTorch and its libraries."""

from __future__ import annotations

from dataclasses import dataclass

RULES_OF_RELEASE = (2, 13)  # of PyTorch, in whose sources the rules of this folder were read


@dataclass(frozen=True)
class Gpu:
    """One GPU under one release."""

    capability: tuple[int, int]
    release: tuple[int, int] = RULES_OF_RELEASE
    description: str = ""  # as cuDNN is told of it; empty: it is not asked
    cudnn: int = 91700  # as `torch.backends.cudnn.version` prints it
    cores: int = 0  # streaming multiprocessors; 0: what depends on them is left out
    threads_per_core: int = 0
    largest_workspaces: bool = False  # of each convolution: that of the algorithm that takes most
    blas_takes: bool = True  # False: CUBLAS_WORKSPACE_CONFIG=:0:0

    @property
    def prefers_cudnn_attention(self) -> bool:
        """Return whether cuDNN's attention comes first; else it comes last, after math.

        `check_prefer_cudnn_attention` in transformers/cuda/sdp_utils.cpp: in 2.9, and since 2.11,
        whose wheels are the first with the cuDNN that 2.10 asks for.
        """
        has_preference = self.release == (2, 9) or (self.release >= (2, 11) and self.cudnn > 91500)
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
    def blas_lt_workspace(self) -> int:
        """Return the bytes of the workspace for matmuls with a bias.

        PyTorch's function is `parseCUDABlasLtWorkspaceSize` in the same file.
        """
        return 1 << 20

    @property
    def caches_lt_workspace(self) -> bool:
        """Return whether a handle keeps `blas_lt_workspace`; older releases take one per matmul.

        See CUDABlas.cpp.
        """
        return self.release >= (2, 7)
