"""Losses: functions and modules."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from acronumba.frontend.library.decorators import rejected
from acronumba.nn import log_softmax, softplus, stop_gradient
from acronumba.torch.implements import implements, promoted
from acronumba.torch.primitives import of_one_dtype, refused


def _reduced(loss, reduction, size_average=None, reduce=None):
    if size_average is not None or reduce is not None:
        rejected("size_average or reduce of a loss", "reduction='mean', 'sum' or 'none'")
    if reduction == "mean":
        return np.mean(loss)
    if reduction == "sum":
        return np.sum(loss)
    if reduction != "none":
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return loss


def _known_reduction(reduction, size_average, reduce):
    if size_average is not None or reduce is not None:
        rejected("size_average or reduce of a loss", "reduction='mean', 'sum' or 'none'")
    if reduction != "mean" and reduction != "sum" and reduction != "none":
        raise ValueError(f"{reduction} is not a valid value for reduction")


# ---- of classes


@implements(F.cross_entropy)
def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    _known_reduction(reduction, size_average, reduce)
    axis = 0 if input.ndim == 1 else 1
    logs = log_softmax(input, axis)
    if target.dtype.kind == "f":
        return _of_probabilities(logs, target, weight, reduction, label_smoothing, axis)
    return _of_classes(logs, target, weight, ignore_index, reduction, label_smoothing, axis)


@implements(F.nll_loss)
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    _known_reduction(reduction, size_average, reduce)
    return _of_classes(input, target, weight, ignore_index, reduction, 0.0, 0 if input.ndim == 1 else 1)


def _of_classes(logs, target, weight, ignore_index, reduction, smoothing, axis):
    of_one_dtype(logs, weight)
    if target.dtype != np.int64 and target.dtype != np.uint8:
        refused("a target that is neither classes of dtype int64 nor probabilities", "target.long()")
    if target.ndim != logs.ndim - 1:
        refused("a target of another rank than the classes of the input", "one class for each row of the input")
    used = target != ignore_index
    count = logs.shape[axis]
    # A negative class that is not ignored is out of range.
    at = np.where(used, np.where(target < 0, count, target), 0)
    share = used.astype(logs.dtype) if weight is None else np.where(used, weight[at], 0)
    loss = -_picked(logs, at, axis) * share
    if smoothing != 0.0:
        each = logs if weight is None else logs * np.reshape(weight, (count,) + (1,) * (logs.ndim - axis - 1))
        smooth = np.where(used, -np.sum(each, axis=axis), 0)
        loss = (1 - smoothing) * loss + smoothing / count * smooth
    if reduction == "none":
        return loss
    return np.sum(loss) / np.sum(share) if reduction == "mean" else np.sum(loss)


def _picked(logs, at, axis):
    if logs.ndim == 1:
        return logs[at]
    if logs.ndim > 3:
        rows = np.reshape(np.moveaxis(logs, axis, -1), (-1, logs.shape[axis]))
        return np.reshape(rows[np.arange(len(rows)), np.reshape(at, -1)], at.shape)
    return np.squeeze(np.take_along_axis(logs, np.expand_dims(at, axis), axis=axis), axis)


def _of_probabilities(logs, target, weight, reduction, smoothing, axis):
    of_one_dtype(logs, target, weight)
    count = logs.shape[axis]
    if target.shape != logs.shape:
        raise RuntimeError("the probabilities of classes have another shape than the input")
    if smoothing != 0.0:
        target = target * (1 - smoothing) + smoothing / count
    each = logs * target
    if weight is not None:
        each = each * np.reshape(weight, (count,) + (1,) * (logs.ndim - axis - 1))
    loss = -np.sum(each, axis=axis)
    return loss if reduction == "none" else np.mean(loss) if reduction == "mean" else np.sum(loss)


@implements(F.binary_cross_entropy, asks=True)
def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    if target.shape != input.shape:
        raise ValueError("the target of binary_cross_entropy has another shape than the input")
    if np.any(input < 0) or np.any(input > 1):
        raise RuntimeError("all elements of input should be between 0 and 1")
    loss = -(target * np.maximum(np.log(input), -100) + (1 - target) * np.maximum(np.log(1 - input), -100))
    return _reduced(loss if weight is None else loss * weight, reduction, size_average, reduce)


@implements(F.binary_cross_entropy_with_logits, asks=True)
def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    if target.shape != input.shape:
        raise ValueError("the target of binary_cross_entropy_with_logits has another shape than the input")
    if pos_weight is None:
        loss = softplus(input) - target * input
    else:
        loss = (1 - target) * input + (1 + (pos_weight - 1) * target) * softplus(-input)
    return _reduced(loss if weight is None else loss * weight, reduction, size_average, reduce)


@implements(F.kl_div, asks=True)
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    if log_target:
        loss = np.exp(target) * (target - input)
    else:
        positive = target > 0
        loss = np.where(positive, target * np.log(np.where(positive, target, 1)), 0) - target * input
    if reduction == "batchmean":
        return np.sum(loss) / (input.shape[0] if input.ndim else 1)
    return _reduced(loss, reduction, size_average, reduce)


@implements(F.multilabel_soft_margin_loss, asks=True)
def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    loss = target * softplus(-input) + (1 - target) * softplus(input)
    return _reduced(np.mean(loss if weight is None else loss * weight, axis=-1), reduction, size_average, reduce)


@implements(F.multi_margin_loss)
def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    axis = input.ndim - 1
    own = np.expand_dims(_picked(input, np.where(target < 0, input.shape[axis], target), axis), axis)
    gap = np.maximum(margin - own + input, 0)
    gap = gap if p == 1 else gap * gap
    gap = gap if weight is None else gap * np.expand_dims(weight[target], axis)
    others = np.arange(input.shape[axis]) != np.expand_dims(target, axis)
    return _reduced(np.sum(np.where(others, gap, 0), axis=axis) / input.shape[axis], reduction, size_average, reduce)


# ---- of numbers


@implements(F.mse_loss, asks=True)
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    x, y = promoted(input, target)
    d = (x - y) ** 2
    if weight is not None:
        rejected("the weight of mse_loss", "weight * (input - target) ** 2")
    return _reduced(d, reduction, size_average, reduce)


@implements(F.l1_loss, asks=True)
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    x, y = promoted(input, target)
    if weight is not None:
        rejected("the weight of l1_loss", "weight * (input - target).abs()")
    return _reduced(np.abs(x - y), reduction, size_average, reduce)


@implements(F.smooth_l1_loss, asks=True)
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    x, y = promoted(input, target)
    d = np.abs(x - y)
    loss = d if beta == 0 else np.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)
    return _reduced(loss, reduction, size_average, reduce)


@implements(F.huber_loss, asks=True)
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    x, y = promoted(input, target)
    if weight is not None:
        rejected("the weight of huber_loss", "weight * F.huber_loss(input, target, reduction='none')")
    d = np.abs(x - y)
    return _reduced(np.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta)), reduction)


@implements(F.poisson_nll_loss, asks=True)
def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-08, reduce=None, reduction="mean"
):
    if full:
        rejected("full=True of poisson_nll_loss", "full=False")
    loss = np.exp(input) - target * input if log_input else input - target * np.log(input + eps)
    return _reduced(loss, reduction, size_average, reduce)


@implements(F.gaussian_nll_loss, asks=True)
def gaussian_nll_loss(input, target, var, full=False, eps=1e-06, reduction="mean"):
    if var.shape != input.shape:
        rejected("a variance of gaussian_nll_loss whose shape is not that of the input", "var.expand_as(input)")
    if np.any(var < 0):
        raise ValueError("var has negative entry/entries")
    var = np.maximum(stop_gradient(np.maximum(var, eps)) - stop_gradient(var) + var, eps)
    loss = 0.5 * (np.log(var) + (input - target) ** 2 / var)
    return _reduced(loss + 0.9189385332046727 if full else loss, reduction)


# ---- of pairs and triplets


@implements(F.margin_ranking_loss, asks=True)
def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    return _reduced(np.maximum(-target * (input1 - input2) + margin, 0), reduction, size_average, reduce)


@implements(F.hinge_embedding_loss, asks=True)
def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    near = np.where(target != -1, input, 0)
    far = np.where(target != 1, np.maximum(margin - input, 0), 0)
    return _reduced(near + far, reduction, size_average, reduce)


@implements(F.soft_margin_loss, asks=True)
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    return _reduced(softplus(-target * input), reduction, size_average, reduce)


@implements(F.cosine_embedding_loss, asks=True)
def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    product = np.sum(input1 * input2, axis=-1)
    n1, n2 = np.sum(input1 * input1, axis=-1) + 1e-12, np.sum(input2 * input2, axis=-1) + 1e-12
    cos = product / np.sqrt(n1 * n2)
    near, far = np.where(target == 1, 1 - cos, 0), np.where(target == -1, np.maximum(cos - margin, 0), 0)
    return _reduced(near + far, reduction, size_average, reduce)


@implements(F.triplet_margin_loss, tensors=True)
def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-06, swap=False, size_average=None, reduce=None, reduction="mean"
):
    near = F.pairwise_distance(anchor, positive, p, eps)
    far = F.pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = torch.minimum(far, F.pairwise_distance(positive, negative, p, eps))
    return F.margin_ranking_loss(far, near, torch.ones_like(near), margin, size_average, reduce, reduction)


# ---- modules


@implements(nn.CrossEntropyLoss.forward, tensors=True)
def cross_entropy_module(self, input, target):
    return F.cross_entropy(
        input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
        label_smoothing=self.label_smoothing,
    )  # fmt: skip


@implements(nn.NLLLoss.forward, tensors=True)
def nll_module(self, input, target):
    return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


@implements(nn.MSELoss.forward, tensors=True)
def mse_module(self, input, target):
    return F.mse_loss(input, target, reduction=self.reduction)


@implements(nn.L1Loss.forward, tensors=True)
def l1_module(self, input, target):
    return F.l1_loss(input, target, reduction=self.reduction)


@implements(nn.SmoothL1Loss.forward, tensors=True)
def smooth_l1_module(self, input, target):
    return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


@implements(nn.HuberLoss.forward, tensors=True)
def huber_module(self, input, target):
    return F.huber_loss(input, target, self.reduction, self.delta)


@implements(nn.BCELoss.forward, tensors=True)
def bce_module(self, input, target):
    return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


@implements(nn.BCEWithLogitsLoss.forward, tensors=True)
def bce_with_logits_module(self, input, target):
    return F.binary_cross_entropy_with_logits(
        input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
    )


@implements(nn.KLDivLoss.forward, tensors=True)
def kl_div_module(self, input, target):
    return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


@implements(nn.MultiLabelSoftMarginLoss.forward, tensors=True)
def multilabel_soft_margin_module(self, input, target):
    return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


@implements(nn.MultiMarginLoss.forward, tensors=True)
def multi_margin_module(self, input, target):
    return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=self.reduction)


@implements(nn.PoissonNLLLoss.forward, tensors=True)
def poisson_nll_module(self, log_input, target):
    return F.poisson_nll_loss(log_input, target, self.log_input, self.full, eps=self.eps, reduction=self.reduction)


@implements(nn.GaussianNLLLoss.forward, tensors=True)
def gaussian_nll_module(self, input, target, var):
    return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


@implements(nn.MarginRankingLoss.forward, tensors=True)
def margin_ranking_module(self, input1, input2, target):
    return F.margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


@implements(nn.HingeEmbeddingLoss.forward, tensors=True)
def hinge_embedding_module(self, input, target):
    return F.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


@implements(nn.SoftMarginLoss.forward, tensors=True)
def soft_margin_module(self, input, target):
    return F.soft_margin_loss(input, target, reduction=self.reduction)


@implements(nn.CosineEmbeddingLoss.forward, tensors=True)
def cosine_embedding_module(self, input1, input2, target):
    return F.cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


@implements(nn.TripletMarginLoss.forward, tensors=True)
def triplet_margin_module(self, anchor, positive, negative):
    return F.triplet_margin_loss(
        anchor, positive, negative, self.margin, self.p, self.eps, self.swap, reduction=self.reduction
    )
