"""Rewrites of parts of PyTorch that no model has, by the last part of their names."""

from __future__ import annotations

_OUTSIDE = "compute it from operations that are supported, or before or after the batch"
_BACKWARD = "return the loss, and call `.backward()` of what the batch returns"
_DENSE = "a dense tensor: `x.to_dense()`, before the batch"
_REAL = "two tensors, of the real and the imaginary parts"
_SEQUENCE = "call the module on the sequence itself: an instance has one length, and needs no padding"
_OWN = "a function of tensors without a backward of its own: `x.detach()` stops a gradient"
_EAGER = "the module itself, as it was before it was compiled"
_PARTS = "write the formula of its `log_prob`; draw samples with torch.randn, torch.rand or torch.multinomial"

ADVICE = {
    "grad": _BACKWARD, "backward": _BACKWARD, "retain_grad": _BACKWARD, "register_hook": _BACKWARD,
    "jacobian": _BACKWARD, "hessian": _BACKWARD, "vjp": _BACKWARD, "jvp": _BACKWARD,
    "to_sparse": _DENSE, "to_dense": _DENSE, "sparse_coo_tensor": _DENSE, "spmm": _DENSE, "coalesce": _DENSE,
    "fft": _REAL, "ifft": _REAL, "rfft": _REAL, "irfft": _REAL, "complex": _REAL, "view_as_complex": _REAL,
    "view_as_real": _REAL, "polar": _REAL, "stft": _REAL,
    "pack_padded_sequence": _SEQUENCE, "pad_packed_sequence": _SEQUENCE, "pack_sequence": _SEQUENCE,
    "apply": _OWN, "save_for_backward": _OWN, "mark_dirty": _OWN,
    "OptimizedModule": _EAGER, "__call__": _EAGER, "compile": _EAGER, "script": _EAGER, "trace": _EAGER,
    "vmap": "a loop over the rows: torch.stack([f(row) for row in x])",
    "Normal": _PARTS, "Categorical": _PARTS, "Bernoulli": _PARTS, "log_prob": _PARTS, "__init__": _PARTS,
    "numpy": "x.detach().numpy()",
    "half": "x.float(): a model computes in float32 or float64", "bfloat16": "x.float()",
    "quantize_per_tensor": "x.float()",
    "share_memory_": _OUTSIDE, "manual_seed": "torch.manual_seed before the batch",
}  # fmt: skip


def advice(name: str) -> str:
    """Return the rewrite of a function; "" if none is known."""
    return ADVICE.get(name, "")
