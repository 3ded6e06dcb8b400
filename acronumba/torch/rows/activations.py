"""The `forward` of the classes of activations of `torch.nn`; their functions are in `acronumba.torch.rows.elements`."""

from __future__ import annotations

from torch import nn
from torch.nn import functional as F

from acronumba.torch.implements import implements


@implements(nn.ReLU.forward, tensors=True)
def relu(self, input):
    return F.relu(input, inplace=self.inplace)


@implements(nn.Hardtanh.forward, tensors=True)  # and of `nn.ReLU6`
def hardtanh(self, input):
    return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


@implements(nn.ELU.forward, tensors=True)
def elu(self, input):
    return F.elu(input, self.alpha, self.inplace)


@implements(nn.SELU.forward, tensors=True)
def selu(self, input):
    return F.selu(input, self.inplace)


@implements(nn.CELU.forward, tensors=True)
def celu(self, input):
    return F.celu(input, self.alpha, self.inplace)


@implements(nn.GELU.forward, tensors=True)
def gelu(self, input):
    return F.gelu(input, approximate=self.approximate)


@implements(nn.SiLU.forward, tensors=True)
def silu(self, input):
    return F.silu(input, inplace=self.inplace)


@implements(nn.Mish.forward, tensors=True)
def mish(self, input):
    return F.mish(input, inplace=self.inplace)


@implements(nn.LeakyReLU.forward, tensors=True)
def leaky_relu(self, input):
    return F.leaky_relu(input, self.negative_slope, self.inplace)


@implements(nn.PReLU.forward, tensors=True)
def prelu(self, input):
    return F.prelu(input, self.weight)


@implements(nn.RReLU.forward, tensors=True)
def rrelu(self, input):
    return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


@implements(nn.GLU.forward, tensors=True)
def glu(self, input):
    return F.glu(input, self.dim)


@implements(nn.Tanh.forward, tensors=True)
def tanh(self, input):
    return input.tanh()


@implements(nn.Sigmoid.forward, tensors=True)
def sigmoid(self, input):
    return input.sigmoid()


@implements(nn.LogSigmoid.forward, tensors=True)
def logsigmoid(self, input):
    return F.logsigmoid(input)


@implements(nn.Softplus.forward, tensors=True)
def softplus(self, input):
    return F.softplus(input, self.beta, self.threshold)


@implements(nn.Softsign.forward, tensors=True)
def softsign(self, input):
    return F.softsign(input)


@implements(nn.Softshrink.forward, tensors=True)
def softshrink(self, input):
    return F.softshrink(input, self.lambd)


@implements(nn.Hardshrink.forward, tensors=True)
def hardshrink(self, input):
    return F.hardshrink(input, self.lambd)


@implements(nn.Tanhshrink.forward, tensors=True)
def tanhshrink(self, input):
    return F.tanhshrink(input)


@implements(nn.Hardsigmoid.forward, tensors=True)
def hardsigmoid(self, input):
    return F.hardsigmoid(input, self.inplace)


@implements(nn.Hardswish.forward, tensors=True)
def hardswish(self, input):
    return F.hardswish(input, self.inplace)


@implements(nn.Threshold.forward, tensors=True)
def threshold(self, input):
    return F.threshold(input, self.threshold, self.value, self.inplace)


@implements(nn.Softmax.forward, tensors=True)
def softmax(self, input):
    return F.softmax(input, self.dim)


@implements(nn.Softmin.forward, tensors=True)
def softmin(self, input):
    return F.softmin(input, self.dim)


@implements(nn.Softmax2d.forward, tensors=True)
def softmax2d(self, input):
    return F.softmax(input, -3)


@implements(nn.LogSoftmax.forward, tensors=True)
def log_softmax(self, input):
    return F.log_softmax(input, self.dim)
