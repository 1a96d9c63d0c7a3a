"""What a GPU's allocator was asked for, replayed, and which workspaces cuDNN answers without the
GPU.
"""
