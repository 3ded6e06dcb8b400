"""Attention and encoders of it, of one sequence or with a batch axis, and sums of bags of rows of a table."""

from __future__ import annotations

import numpy as np
from torch import nn
from torch.nn import functional as F

from acronumba.frontend.library.decorators import rejected
from acronumba.nn import softmax
from acronumba.torch.implements import array, implements, numpy_dtype, tensor
from acronumba.torch.primitives import of_one_dtype


@implements(F.scaled_dot_product_attention)
def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
):
    if dropout_p != 0 or enable_gqa:
        rejected("attention with dropout or grouped queries", "F.dropout of the result")
    of_one_dtype(query, key, value)
    scores = query @ np.swapaxes(key, -1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        if attn_mask is not None:
            rejected("a mask beside is_causal=True", "one of both")
        scores = np.where(np.tri(scores.shape[-2], scores.shape[-1], dtype=bool), scores, -np.inf)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    return softmax(scores) @ value


@implements(nn.MultiheadAttention.forward, tensors=True)
def multi_head_attention(
    self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True,
    is_causal=False
):  # fmt: skip
    if self.training and self.dropout > 0:
        rejected("attention with dropout in training", "dropout=0.0, and nn.Dropout of the result")
    if self.bias_k is not None or self.add_zero_attn:
        rejected("attention with add_bias_kv or add_zero_attn", "a further row of key and value")
    if is_causal and attn_mask is None:
        rejected("is_causal=True without a mask", "attn_mask=mask")
    q, k, v = _projected(self, array(query), array(key), array(value))
    scores = (q * self.head_dim**-0.5) @ np.swapaxes(k, -1, -2)
    if attn_mask is not None:
        scores = _masked(scores, array(attn_mask))
    if key_padding_mask is not None:
        hidden = array(key_padding_mask)
        scores = _masked(scores, hidden if hidden.ndim == 1 else hidden[:, None, None])
    weights = softmax(scores)
    heads = np.swapaxes(weights @ v, -2, -3)
    y = tensor(np.reshape(heads, (*heads.shape[:-2], self.embed_dim)))
    y = F.linear(y, self.out_proj.weight, self.out_proj.bias)
    if query.ndim == 3 and not self.batch_first:
        y = y.transpose(0, 1)
    if not need_weights:
        return y, None
    return y, tensor(np.mean(weights, axis=-3) if average_attn_weights else weights)


def _masked(scores, mask):
    if mask.ndim == 3:
        rejected("a mask for each head", "a mask of shape [queries, keys]")
    return np.where(mask, -np.inf, scores) if mask.dtype == bool else scores + mask


def _projected(self, query, key, value):
    """Return queries, keys and values of shape [heads, steps, size], with a batch axis before if there is one."""
    e = self.embed_dim
    b = None if self.in_proj_bias is None else array(self.in_proj_bias)
    if self._qkv_same_embed_dim:
        w = array(self.in_proj_weight)
        wq, wk, wv = w[:e], w[e : 2 * e], w[2 * e :]
    else:
        wq, wk, wv = array(self.q_proj_weight), array(self.k_proj_weight), array(self.v_proj_weight)
    bq, bk, bv = (None, None, None) if b is None else (b[:e], b[e : 2 * e], b[2 * e :])
    return _heads(self, query, wq, bq), _heads(self, key, wk, bk), _heads(self, value, wv, bv)


def _heads(self, x, weight, bias):
    of_one_dtype(x, weight)
    if x.ndim == 3 and not self.batch_first:
        x = np.swapaxes(x, 0, 1)
    y = x @ weight.T
    y = y if bias is None else y + bias
    return np.swapaxes(np.reshape(y, (*y.shape[:-1], self.num_heads, self.head_dim)), -2, -3)


@implements(nn.TransformerEncoderLayer.forward, tensors=True)
def transformer_layer(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
    if self.norm_first:
        x = src + _self_attended(self, self.norm1(src), src_mask, src_key_padding_mask)
        return x + _fed_forward(self, self.norm2(x))
    x = self.norm1(src + _self_attended(self, src, src_mask, src_key_padding_mask))
    return self.norm2(x + _fed_forward(self, x))


def _self_attended(self, x, mask, hidden):
    y, _ = self.self_attn(x, x, x, hidden, False, mask)
    return self.dropout1(y)


def _fed_forward(self, x):
    return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


@implements(nn.TransformerEncoder.forward, tensors=True)
def transformer(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
    x = src
    for layer in self.layers:
        x = layer(x, mask, src_key_padding_mask)
    return x if self.norm is None else self.norm(x)


@implements(nn.Transformer.generate_square_subsequent_mask)
def square_mask(sz, device=None, dtype=None):
    mask = np.where(np.tri(sz, dtype=bool), 0.0, -np.inf)
    return mask.astype(np.float32 if dtype is None else numpy_dtype(dtype))


@implements(nn.EmbeddingBag.forward, tensors=True)
def embedding_bag(self, input, offsets=None, per_sample_weights=None):
    if self.max_norm is not None or self.padding_idx is not None or self.sparse or self.scale_grad_by_freq:
        rejected("a bag of rows with max_norm, padding_idx or sparse gradients", "nn.Embedding, and a sum of its rows")
    if offsets is not None or input.ndim != 2:
        rejected("bags of rows with offsets", "bags of one length, int64[bags, length]; or nn.Embedding(x).sum(0)")
    rows = F.embedding(input, self.weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if self.mode == "max":
        return rows.max(1).values
    return rows.mean(1) if self.mode == "mean" else rows.sum(1)
