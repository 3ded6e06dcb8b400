"""Dropout."""

from __future__ import annotations

from torch import nn
from torch.nn import functional as F

from acronumba.frontend.library.decorators import rejected
from acronumba.torch.implements import implements


@implements(nn.Dropout.forward, tensors=True)
def dropout(self, input):
    return F.dropout(input, self.p, self.training, self.inplace)


@implements(F.dropout, tensors=True)
def dropout_of(input, p=0.5, training=True, inplace=False):
    if training and p > 0:
        rejected("dropout in training", "net.eval()")
    return input
