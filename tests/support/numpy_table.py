"""What of NumPy works in models, tried: the functions of the Array API standard, and what code of models says besides.

    python tests/numpy_table.py                      all, by the interpreter of the IR
    python tests/numpy_table.py --through compiled   by machine code; simulator: on the simulator of a GPU
    python tests/numpy_table.py --only sort          those whose text has "sort"

A line is a name and expressions of it (`name: one; another`), or expressions alone. What the variables stand for:

    x y    matrices [n, 4]          v w    vectors [n]             a      [2, n, 3]       r    [4, 3]
    q p    matrices [3, 3]          d      spd matrices [3, 3]     z      an array of rank 0       u    a NumPy scalar
    i j    int64 [n], in 0..3       b      bool [n]                m      bool [n, 4]     e    [7] sorted
    k      an int                   s      a float                 g      int64 [n, 4], in 0..n-1

Extents n are known at run time only: 5, 1 and 0. Each is tried in several dtypes (those that NumPy takes), with NaN,
ties and zeros of both signs; results have NumPy's types, dtypes, shapes and, within what `ULPS` allows, values.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import re
import time
import types
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.everywhere import difference
from tests.support.modules import import_file

DTYPES = ("float32", "float64", "int64", "uint8", "bool")
EXTENTS = (5, 1, 0)
ULPS = 16  # of the largest magnitude in an array; sums are in another order
OFF = {"linalg": 4096}  # what solves equations, by a part of its text

ARRAY_API = """
creation
arange: np.arange(k); np.arange(1, k, 2); np.arange(0.0, 1.0, 0.25)
asarray: np.asarray(x); np.asarray([s, 1.0]); np.asarray(v, dtype=np.float64)
empty: np.empty((2, k)).shape
empty_like: np.empty_like(x).shape
eye: np.eye(3); np.eye(k, 4, k=1)
from_dlpack: np.from_dlpack(x)
full: np.full((2, k), s); np.full(3, 7)
full_like: np.full_like(x, 1)
linspace: np.linspace(0, 1, 5); np.linspace(s, 3.0, 4); np.linspace(0, s, 4, endpoint=False); np.linspace(0, 1, k)
meshgrid: np.meshgrid(v, w)[0]; np.meshgrid(v, w, indexing="ij")[1]
ones: np.ones((k, 2)); np.ones(3, dtype=np.int64)
ones_like: np.ones_like(x)
tril: np.tril(x); np.tril(x, -1)
triu: np.triu(x); np.triu(a, k=1)
zeros: np.zeros((k, 2)); np.zeros(3, dtype=np.float32)
zeros_like: np.zeros_like(x)
dtypes
astype: x.astype(np.float32); np.astype(x, np.float64)
can_cast: np.can_cast(np.float32, np.float64); np.can_cast(x.dtype, np.float32)
finfo: np.finfo(np.float32).eps; np.finfo(np.float64).max
iinfo: np.iinfo(np.int32).max
isdtype: np.isdtype(x.dtype, "real floating"); np.isdtype(x.dtype, np.float32)
result_type: np.result_type(x, np.float32).itemsize
elementwise
abs: np.abs(x); abs(u); np.absolute(z)
acos: np.arccos(v)
acosh: np.arccosh(v)
add: np.add(x, y); x + k; u + s
asin: np.arcsin(v)
asinh: np.arcsinh(x)
atan: np.arctan(x)
atan2: np.arctan2(x, y)
atanh: np.arctanh(v)
bitwise_and: np.bitwise_and(i, j); b & b
bitwise_invert: np.bitwise_invert(i); ~b
bitwise_left_shift: np.bitwise_left_shift(i, j)
bitwise_or: np.bitwise_or(i, j)
bitwise_right_shift: np.bitwise_right_shift(i, j)
bitwise_xor: np.bitwise_xor(i, j)
ceil: np.ceil(x); np.ceil(u)
clip: np.clip(x, 0, 2); np.clip(x, y, None)
conj: np.conj(x); x.conj()
copysign: np.copysign(x, y)
cos: np.cos(x)
cosh: np.cosh(x)
divide: np.divide(x, y); x / 2
equal: np.equal(x, y)
exp: np.exp(x)
expm1: np.expm1(x)
floor: np.floor(x)
floor_divide: np.floor_divide(x, y)
greater: np.greater(x, y)
greater_equal: np.greater_equal(x, 1)
hypot: np.hypot(x, y)
imag: np.imag(x); x.imag
isfinite: np.isfinite(x); np.isfinite(u)
isinf: np.isinf(x)
isnan: np.isnan(x); np.isnan(u)
less: np.less(x, y)
less_equal: np.less_equal(x, y)
log: np.log(x)
log1p: np.log1p(x)
log2: np.log2(x)
log10: np.log10(x)
logaddexp: np.logaddexp(x, y)
logical_and: np.logical_and(x, y)
logical_not: np.logical_not(x)
logical_or: np.logical_or(x, y)
logical_xor: np.logical_xor(x, y)
maximum: np.maximum(x, y)
minimum: np.minimum(x, y)
multiply: np.multiply(x, y)
negative: np.negative(x)
not_equal: np.not_equal(x, y)
positive: np.positive(x); +x
pow: np.pow(x, 2); x ** 2
real: np.real(x); x.real
remainder: np.remainder(x, y); x % 3
round: np.round(x); np.round(x, 2); x.round(1); np.round(u)
sign: np.sign(x)
signbit: np.signbit(x)
sin: np.sin(x)
sinh: np.sinh(x)
square: np.square(x)
sqrt: np.sqrt(x)
subtract: np.subtract(x, y)
tan: np.tan(x)
tanh: np.tanh(x)
trunc: np.trunc(x)
fft
fft: np.fft.fft(v)
ifft: np.fft.ifft(v)
fftn: np.fft.fftn(x)
ifftn: np.fft.ifftn(x)
rfft: np.fft.rfft(v)
irfft: np.fft.irfft(v)
rfftn: np.fft.rfftn(x)
irfftn: np.fft.irfftn(x)
hfft: np.fft.hfft(v)
ihfft: np.fft.ihfft(v)
fftfreq: np.fft.fftfreq(5)
rfftfreq: np.fft.rfftfreq(5)
fftshift: np.fft.fftshift(v)
ifftshift: np.fft.ifftshift(v)
indexing
take: np.take(x, i, axis=1); np.take(v, [0], axis=0)
linalg
cholesky: np.linalg.cholesky(d)
cross: np.linalg.cross(q, p); np.cross(q, p)
det: np.linalg.det(q)
diagonal: np.diagonal(x); np.diagonal(x, offset=1)
eigh: np.linalg.eigh(d)
eigvalsh: np.linalg.eigvalsh(d)
inv: np.linalg.inv(q)
linalg_matmul: np.linalg.matmul(q, p)
matrix_norm: np.linalg.matrix_norm(x); np.linalg.matrix_norm(q, ord=1)
matrix_power: np.linalg.matrix_power(q, 3)
matrix_rank: np.linalg.matrix_rank(d)
linalg_matrix_transpose: np.linalg.matrix_transpose(x)
outer: np.outer(v, w); np.linalg.outer(v, w)
pinv: np.linalg.pinv(d)
qr: np.linalg.qr(q)
slogdet: np.linalg.slogdet(q)
solve: np.linalg.solve(q, p); np.linalg.solve(q, p[0])
svd: np.linalg.svd(q, compute_uv=False)
svdvals: np.linalg.svdvals(q)
linalg_tensordot: np.linalg.tensordot(q, p, axes=1)
trace: np.trace(x); np.linalg.trace(q)
linalg_vecdot: np.linalg.vecdot(x, y)
vector_norm: np.linalg.vector_norm(v); np.linalg.vector_norm(x, axis=1, ord=1)
linear algebra
matmul: x @ r; np.matmul(x, r)
matrix_transpose: np.matrix_transpose(x); x.mT
tensordot: np.tensordot(x, r, axes=1); np.tensordot(x, y, axes=([0, 1], [0, 1])); np.tensordot(v, w, axes=0)
vecdot: np.vecdot(x, y); np.vecdot(x, y, axis=0)
manipulation
broadcast_arrays: np.broadcast_arrays(x, x[:, :1])[1]
broadcast_to: np.broadcast_to(z, (k, 2))
concat: np.concat([x, y]); np.concat([v, w], axis=0)
expand_dims: np.expand_dims(x, 1)
flip: np.flip(x); np.flip(x, axis=0)
moveaxis: np.moveaxis(a, 0, -1)
permute_dims: np.permute_dims(a, (2, 0, 1))
repeat: np.repeat(v, 3); np.repeat(x, 2, axis=1); np.repeat(x, k, axis=0)
reshape: np.reshape(x, (-1,)); x.reshape(-1, 2)
roll: np.roll(v, 1); np.roll(x, -2, axis=1); np.roll(x, k, axis=0); np.roll(x, (1, 2), axis=(0, 1))
squeeze: np.squeeze(x[:, :1], axis=1)
stack: np.stack([x, y]); np.stack([v, w], axis=1)
tile: np.tile(v, 3); np.tile(x, (2, 1)); np.tile(x, 2)
unstack: np.unstack(np.stack([v, w]))[1]; np.unstack(np.stack([v, w]), axis=0)
searching
argmax: np.argmax(r); np.argmax(x, axis=1)
argmin: np.argmin(r); np.argmin(x, axis=1)
nonzero: np.nonzero(v)[0]; np.nonzero(x)[1]
searchsorted: np.searchsorted(e, v); np.searchsorted(e, w, side="right")
where: np.where(b, v, w); np.where(m, x, 0)
sets
unique_all: np.unique_all(v)[0]
unique_counts: np.unique_counts(v)[1]
unique_inverse: np.unique_inverse(v)[1]
unique_values: np.unique_values(v)
sorting
argsort: np.argsort(v, kind="stable"); np.argsort(x, axis=0, stable=True)
sort: np.sort(v); np.sort(x, axis=0); np.sort(x, axis=None)
statistics
cumulative_sum: np.cumulative_sum(v); np.cumulative_sum(x, axis=1, include_initial=True)
max: np.max(r); np.max(x, axis=1)
mean: np.mean(r); np.mean(x, axis=1, keepdims=True)
min: np.min(r); np.min(x, axis=1)
prod: np.prod(r); np.prod(x, axis=0)
std: np.std(r); np.std(x, axis=1)
sum: np.sum(x); np.sum(x, axis=0)
var: np.var(r); np.var(x, axis=1, ddof=1)
utilities
all: np.all(x); np.all(x, axis=0)
any: np.any(x); np.any(x, axis=0)
"""

USUAL = """
creation
np.array([1.0, 2.0, s]); np.array([v, w]); np.array(x); np.array(k); np.array(u); np.array(x[0])
np.array([[1, 2], [3, 4]])
np.asarray([k, k]); np.asarray(x, np.float32); np.ascontiguousarray(x.T); np.asanyarray(x); np.copy(x); x.copy()
np.zeros(k); np.zeros((k, 3)); np.zeros(x.shape); np.zeros(x.shape, x.dtype); np.zeros(len(v)); np.zeros_like(v)
np.ones(3)
np.ones((2, 2), bool); np.full((2, 2), -np.inf); np.full(k, np.nan); np.full_like(x, -1); np.empty_like(x).shape
np.eye(3)
np.eye(4)[i]; np.eye(k, dtype=np.float32); np.identity(3); np.arange(len(v)); np.arange(k)[::-1]
np.arange(0, 10, 3)
np.arange(3, dtype=np.float32); np.arange(0.0, 2.0, 0.5); np.linspace(0.0, 1.0, 11); np.logspace(0, 2, 3)
np.geomspace(1, 8, 4); np.linspace(0, u, 4); np.linspace(u, s, 3); np.linspace(1, v, 3)
np.geomspace(1, np.abs(u) + 1, 3); np.geomspace(-1, -8, 4)
np.tri(3); np.tri(k, 4, -1); np.tril(np.ones((k, k))); np.triu(np.ones((4, 4)), 1); np.tril(q)
(1 - np.tri(k)) * -1e10
np.diag(v); np.diag(q); np.diag(x, 1); np.diag(v, k=1); np.diag(v, -2); np.diagflat(v); np.vander(v, 3)
np.indices((2, 3))
np.meshgrid(v, w); np.meshgrid(v, w, indexing="ij")[0]; np.tril_indices(4)[0]; np.triu_indices(3, 1)[1]
np.diag_indices(3)[0]
np.fromfunction(lambda i, j: i + j, (2, 3)); np.hamming(5); np.hanning(5); np.r_[v, w]; np.c_[v, w]
np.mgrid[0:2, 0:3]; np.ogrid[0:2, 0:3][0]
np.tri(len(v), dtype=bool); np.zeros((2, k, 3)).shape; np.array([k for _ in range(3)]); np.array([[s, s], [s, s]])
np.array(3.0)
reductions
x.sum(); x.sum(0); x.sum(axis=-1, keepdims=True); x.sum(axis=(0, 1)); np.sum(x * y, axis=-1); np.sum([v, w], axis=0)
np.sum(b)
x.mean(1); np.mean(x, axis=0, dtype=np.float64); r.max(); r.min(axis=1); np.amax(r, axis=0); np.amin(r)
r.max(axis=-1, keepdims=True)
x.prod(axis=1); np.std(r, axis=0); r.var(ddof=1); np.any(x > 1); np.all(x == x, axis=1); (x > 0).mean(axis=1)
np.ptp(r); np.ptp(r, axis=1)
x.argmax(1); np.argmin(x, axis=-1); r.argmax(); np.argmax(x, axis=1, keepdims=True); np.count_nonzero(x)
np.count_nonzero(x, axis=1)
np.cumsum(v); np.cumsum(x, axis=1); x.cumsum(0); np.cumprod(v); np.diff(v); np.diff(x, axis=1)
np.diff(x, n=2, axis=1); np.ediff1d(v)
np.nansum(x); np.nanmean(r); np.nanmax(r); np.nanmin(r, axis=0); np.nanstd(r); np.nanvar(r); np.nanprod(x)
np.nanargmax(r); np.nancumsum(v)
np.median(r); np.median(r, axis=1); np.median(x, axis=1); np.quantile(r, 0.25); np.percentile(r, 75)
np.quantile(r, [0.1, 0.5], axis=0)
np.average(r); np.average(r, axis=0); np.average(r[0], weights=r[1]); np.sum(x, axis=1, where=m)
np.sum(x, initial=1.0); np.max(x, axis=1, initial=0)
np.mean(r, axis=0, where=r > 0); np.any(x, axis=1, where=m); np.max(x, initial=-np.inf)
np.logical_or.reduce(x, axis=0); np.add.reduce(x)
np.add.reduce(x, axis=1); np.multiply.reduce(v); np.maximum.reduce(x, axis=1); np.minimum.reduce([v, w])
np.logical_and.reduce([b, ~b])
np.maximum.accumulate(v); np.add.accumulate(x, axis=1); np.minimum.accumulate(x, axis=0); np.multiply.accumulate(v)
np.logaddexp.reduce(v)
np.add.outer(v, w); np.subtract.outer(v, v); np.multiply.outer(v, w); np.equal.outer(i, j); np.maximum.outer(v, w)
np.cov(r); np.corrcoef(r)
np.trapezoid(v); np.dot(v, w) / len(v); np.histogram(v, 3)[0]; np.bincount(i); np.bincount(i, minlength=6)
np.histogram(v, [-1, 0, 2], density=True); np.histogram(v, 4, (0, 2)); np.unique(x, axis=0)
np.bincount(i, weights=v)
np.add.reduceat(x, [0]); np.add.reduceat(v, i); np.multiply.reduceat(x, [1, 0, 0, 3, 3], axis=1)
np.maximum.reduceat(v, j); np.minimum.reduceat(x, [2, 1], axis=-1); np.add.reduceat(b, [0])
np.lib.stride_tricks.sliding_window_view(v, 2); np.lib.stride_tricks.sliding_window_view(x, (1, 3)).sum(-1)
np.lib.stride_tricks.sliding_window_view(a, 2, axis=-1); np.lib.stride_tricks.sliding_window_view(x, k, 0) @ v
np.nancumprod(x); np.nanargmin(r); np.cumulative_prod(v)
elementwise
np.conjugate(x); np.log2(x); np.log10(x); np.exp2(x); np.cbrt(x); np.sinc(x); np.deg2rad(x); np.rad2deg(x)
np.radians(x)
np.degrees(x); np.reciprocal(v)
np.rint(x); np.round(x, 2); np.around(x, 1); np.fix(x); np.ceil(x); np.trunc(x); np.floor(x).astype(int)
np.modf(v)[0]; np.fmod(x, y); np.divmod(x, 3)
np.maximum(x, 0); np.minimum(x, 6); np.fmax(x, y); np.fmin(x, y); np.clip(x, -1, 1); np.clip(x, a_min=0, a_max=None)
x.clip(0); x.clip(max=2)
np.nan_to_num(x); np.nan_to_num(x, nan=1.0, posinf=9.0, neginf=-9.0); np.isinf(x); np.isfinite(x); np.isnan(x).any()
np.isneginf(x); np.isposinf(x)
np.sign(x); np.signbit(x); np.copysign(x, y); np.abs(x - y); np.fabs(x); np.square(x); np.sqrt(np.abs(x))
np.power(x, 2); x ** 0.5; x ** -1.0; np.float_power(x, 2)
np.logaddexp(x, y); np.logaddexp2(x, y); np.heaviside(x, 0.5); np.gcd(i, j); np.lcm(i, j); np.ldexp(v, 2)
np.hypot(x, y); np.hypot(x, 1.0); np.hypot(u, 2)
np.nextafter(x, y); np.frexp(v)[0]
np.where(x > 0, x, 0.01 * x); np.where(m, x, y); np.where(x > y, x, 0); np.select([x > 1, x < 0], [x, -x], 0)
np.piecewise(v, [v > 0], [1, 0]); np.piecewise(v, [v < 0, v > 1], [lambda x: -x, 2, lambda x: x])
np.choose(i % 2, [v, w])
np.tan(x); np.arctan(x); np.arctan2(x, y); np.sinh(x); np.cosh(x); np.arcsin(v); np.arccos(v); np.arctanh(v)
np.arcsinh(x); np.arccosh(v); np.unwrap(v)
np.isclose(x, y); np.allclose(x, y); np.array_equal(x, y); np.array_equal(x, x[:1])
np.interp(v, [0, 1, 2], [0, 2, 3]); np.convolve(e, [1, 2, 1]); np.convolve(e, [1, 1], mode="valid")
np.correlate(e, [1, 2]); np.polyval([1, 2, 3], x); np.polyval(v, s); np.polyval(e, u); np.polyval(x, r[0])
np.bitwise_and(i, j); np.invert(b); np.left_shift(i, 1); np.right_shift(i, 1); np.logical_and(x > 0, y > 0)
np.logical_not(x); np.logical_xor(b, ~b); np.bitwise_or.reduce(i)
np.add(x, y, out=np.zeros_like(x + y)); np.divide(x, y, out=np.zeros(x.shape), where=y != 0)
np.add(x, 1, dtype=np.float64); np.sqrt(x, dtype=np.float64); np.true_divide(x, y)
np.exp(x - x.max(axis=1, keepdims=True))
np.add(x, y, where=m, out=np.zeros_like(x + y)); np.maximum(v, w, out=v.copy()); np.conj(x); np.real(x); np.angle(x)
np.negative(x); np.positive(x); np.absolute(u); np.tanh(u)
products
np.dot(x, r); np.dot(v, w); x.dot(r); x @ r; v @ x; x.T @ x; np.inner(v, w); np.inner(x, y); np.vdot(v, w)
np.outer(v, w); np.matmul(a, r[:3]); np.kron(v, w); np.kron(q, p); np.cross(q, p)
np.einsum("ij,jk->ik", x, r); np.einsum("ij,ij->i", x, y); np.einsum("i,j->ij", v, w); np.einsum("ij->ji", x)
np.einsum("ii->i", q); np.einsum("ii", q); np.einsum("...ij,jk->...ik", a, r[:3]); np.einsum("ij->", x)
np.einsum("bij,bkj->bik", a, a); np.einsum("...i->...", a); np.einsum("i,i", v, w); np.einsum("ij,j", x, r[:, 0])
np.tensordot(a, r[:3], axes=([2], [0])); np.tensordot(x, r, 1); np.tensordot(x, y); np.vecdot(x, y)
np.linalg.norm(x); np.linalg.norm(x, axis=1); np.linalg.norm(x, axis=1, keepdims=True); np.linalg.norm(v, 1)
np.linalg.norm(v, np.inf); np.linalg.norm(x, "fro"); np.linalg.norm(q, 2); np.linalg.norm(q, 1)
np.linalg.norm(v, 0); np.linalg.norm(v, 3)
np.linalg.solve(q, p); np.linalg.inv(q); np.linalg.det(q); np.linalg.slogdet(q)[1]; np.linalg.cholesky(d)
np.linalg.matrix_power(q, 3); np.linalg.multi_dot([x, r, p]); np.linalg.eigvalsh(d); np.linalg.pinv(d)
np.linalg.lstsq(q, p)[0]; np.linalg.matrix_rank(d); np.trace(q); np.linalg.qr(q)[1]; np.matvec(x, r[:, 0])
np.vecmat(r[:, 0], r)
shapes
x.reshape(-1); x.reshape(-1, 2, 2); x.reshape((4, -1)); np.reshape(x, (-1, 1)); x.ravel(); x.flatten(); np.ravel(x)
x.T; np.transpose(x); a.transpose(1, 0, 2); np.transpose(a, (2, 0, 1)); np.swapaxes(a, 0, 1); a.swapaxes(1, 2)
np.moveaxis(a, -1, 0); np.rollaxis(a, 2); x.mT
np.expand_dims(v, 0); np.expand_dims(v, (0, 2)); v[:, None]; v[np.newaxis, :]; x[:, None, :]; np.squeeze(v[None])
np.squeeze(x[:, :1], 1); x[:, :1].squeeze(axis=1); x[:, :1].squeeze(-1); np.atleast_1d(u); np.atleast_2d(v)
np.atleast_3d(x); np.broadcast_to(v, (3, len(v))); np.broadcast_to(u, (2, 2)); np.resize(r, (2, 2))
np.concatenate([v, w]); np.concatenate([x, y], axis=1); np.concatenate((x, x), axis=-1)
np.concatenate([x, y], axis=None); np.stack([v, w]); np.stack([v, w], axis=1); np.stack([v, w], -1)
np.vstack([v, w]); np.vstack([x, y]); np.hstack([v, w]); np.hstack([x, y]); np.dstack([x, y])
np.column_stack([v, w]); np.column_stack([v, x]); np.append(v, w); np.append(v, 1); np.append(x, y, axis=0)
np.insert(e, 1, 9.0); np.delete(e, 2); np.block([[q, p], [p, q]])
np.split(r, 2); np.split(r, [1, 3])[1]; np.split(x, 2, axis=1)[1]; np.array_split(r, 3)[0]; np.hsplit(x, 2)[0]
np.vsplit(r, 2)[1]; np.dsplit(a, 3)[0]; np.repeat(v, 2); np.repeat(x, 3, axis=0); np.repeat(r, [1, 0, 2, 1], axis=0)
v.repeat(2); np.tile(v, 2); np.tile(v, (3, 1)); np.tile(x, (2, 2)); np.tile(v, k)
np.roll(v, 1); np.roll(x, 1, axis=1); np.roll(x, -1); np.flip(v); np.flip(x, 1); np.fliplr(x); np.flipud(x); x[::-1]
x[:, ::-1]; np.rot90(x); np.pad(v, 1); np.pad(v, (1, 2)); np.pad(x, ((0, 0), (1, 1)))
np.pad(v, (0, k), constant_values=-1); np.pad(x, 1, mode="constant"); np.pad(r, 1, mode="edge")
np.pad(r, 1, mode="reflect"); np.pad(x, ((k, 0), (0, 0))); np.trim_zeros(e)
x.shape[0]; x.ndim; x.size; len(x); x.dtype == np.float64; x.itemsize; np.shape(x); np.size(x); np.ndim(x)
np.size(x, 0); x.T.shape; x.astype(np.float64); x.astype("float32"); x.astype(int); x.astype(bool); v.tolist()
u.item(); float(u); int(u); bool(u); x.nbytes; np.isscalar(u)
indexing
r[0]; r[-1]; r[1, 2]; r[k]; x[:, 0]; x[:, -1]; x[1:]; x[:-1]; x[::2]; x[:, 1:3]; x[..., 0]; x[..., None]
r[range(2)]; r[range(2), 1]; np.array(range(k)); np.mean(range(1, k + 3)); np.isin(k, [1, 2])
x[:, [0, 2]]; r[[0, 2]]; r[i]; x[:, i]; r[i, j]; r[i, 0]; r[[0, 1], [1, 2]]; r[:, i]; x[np.arange(len(v)), i]
x[np.arange(len(x)), i % 4]; r[i[:, None], j[None, :] % 3]; r[np.ix_([0, 1], [2, 0])]; a[:, 0]; a[0, :, 1]
a[:, i % 1] if len(v) > 0 else a; r[2:0:-1]; r[1:3, ::2]
v[b]; x[b]; x[m]; v[v > 0]; x[x > 0].sum(); np.nonzero(v)[0]; np.flatnonzero(v); np.argwhere(v); np.where(b)[0]
np.extract(b, v); np.compress(b, x, axis=0); np.take(v, [0, 0]) if len(v) else v; np.take(x, i, axis=1)
np.take(r, 1, axis=0); x.take([1, 0], axis=1); np.take_along_axis(x, g, axis=0)
np.take_along_axis(x, np.argmax(x, axis=1)[:, None], axis=1); np.take(e, i, mode="clip"); e.take(i + 9, mode="wrap")
np.diagonal(x); x.diagonal(); np.unravel_index(k, (3, 4)); np.ravel_multi_index((1, k), (3, 4))
np.choose([1, 0], [e[:2], e[2:4]])
sorting
np.sort(v); np.sort(x, axis=0); np.sort(x); np.sort(v)[::-1]; np.argsort(v, kind="stable")
np.argsort(-v, kind="stable"); v.argsort(kind="stable"); np.argsort(x, axis=1, kind="stable")
np.argsort(x, axis=0, kind="stable"); np.argsort(np.argsort(v, kind="stable"), kind="stable")
np.partition(r, 1, axis=0)[1]; np.partition(e, 2)[2]; np.argpartition(r, 1, axis=0).shape
np.argpartition(-e, 2)[:3].shape; np.lexsort((v, w)); np.sort(e)[-3:]
np.searchsorted(e, v); np.searchsorted(e, s); np.searchsorted(e, v, side="right"); np.digitize(v, e); np.unique(v)
np.unique(v, return_counts=True)[1]; np.unique(v, return_inverse=True)[1]; np.unique(v, return_index=True)[1]
np.unique(x); np.isin(i, [1, 2]); np.isin(i, j); np.isin(i, j, invert=True); np.intersect1d(i, j); np.union1d(i, j)
np.setdiff1d(i, j); np.setxor1d(i, j); np.argmax(np.bincount(i)) if len(v) else k
other
np.inf; np.pi; np.nan; np.e; np.float32(s); np.int64(k); np.float64(s) * 2
np.finfo(x.dtype).eps if x.dtype.kind == "f" else 0.0; np.finfo(np.float32).min; np.iinfo(np.int64).max
np.issubdtype(x.dtype, np.floating); x.dtype == np.float32; np.isscalar(k); np.result_type(x, y) == x.dtype
np.promote_types(np.float32, np.int64) == np.float64; np.can_cast(np.int32, np.int64)
np.dtype(np.float32) == x.dtype; np.dtype("int8").itemsize; isinstance(x, np.ndarray)
np.broadcast_shapes((2, 1), (3,)); np.iterable(x); x.dtype.name; x.dtype.kind
"""

SPECIAL = """
expit: expit(x); expit(u)
logit: logit(v)
softmax: softmax(x, axis=1); softmax(x); softmax(v, axis=-1)
log_softmax: log_softmax(x, axis=1); log_softmax(v)
logsumexp: logsumexp(x, axis=1); logsumexp(r); logsumexp(x, axis=1, keepdims=True)
erf: erf(x)
erfc: erfc(x)
xlogy: xlogy(x, y)
rel_entr: rel_entr(x, y)
log1p: log1p(x)
expm1: expm1(x)
log_ndtr: log_ndtr(x)
ndtr: ndtr(x)
softplus: softplus(x)
gamma: gamma(x)
gammaln: gammaln(x)
digamma: digamma(x)
erfinv: erfinv(v)
xlog1py: xlog1py(x, y)
entr: entr(x)
huber: huber(1.0, x)
"""

MATH = """
acos: math.acos(s / 9)
acosh: math.acosh(s + 1)
asin: math.asin(s / 9)
asinh: math.asinh(s)
atan: math.atan(s)
atan2: math.atan2(s, k)
atanh: math.atanh(s / 9)
cbrt: math.cbrt(s)
ceil: math.ceil(s)
comb: math.comb(k, 2)
copysign: math.copysign(s, -1.0)
cos: math.cos(s)
cosh: math.cosh(s)
degrees: math.degrees(s)
dist: math.dist([s, 1.0], [0.0, s])
erf: math.erf(s)
erfc: math.erfc(s)
exp: math.exp(s)
exp2: math.exp2(s)
expm1: math.expm1(s)
fabs: math.fabs(s)
factorial: math.factorial(k)
floor: math.floor(s)
fmod: math.fmod(s, 2.0)
frexp: math.frexp(s)
fsum: math.fsum([s, 0.1, 0.2])
gamma: math.gamma(s)
gcd: math.gcd(k, 12)
hypot: math.hypot(s, 2.0); math.hypot(s, 1.0, 2.0)
isclose: math.isclose(s, 1.5)
isfinite: math.isfinite(s)
isinf: math.isinf(s)
isnan: math.isnan(s)
isqrt: math.isqrt(k)
lcm: math.lcm(k, 4)
ldexp: math.ldexp(s, 3)
lgamma: math.lgamma(s)
log: math.log(s); math.log(s, 2)
log10: math.log10(s)
log1p: math.log1p(s)
log2: math.log2(s)
modf: math.modf(s)
nextafter: math.nextafter(s, 9.0)
perm: math.perm(k, 2)
pow: math.pow(s, 2.0)
prod: math.prod([s, 2.0, k])
radians: math.radians(s)
remainder: math.remainder(s, 2.0)
sin: math.sin(s)
sinh: math.sinh(s)
sqrt: math.sqrt(s)
tan: math.tan(s)
tanh: math.tanh(s)
trunc: math.trunc(s)
ulp: math.ulp(s)
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A function, or an expression, and what it is tried with."""

    group: str
    name: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What came of an expression: "works", "rejected CODE", or how it is wrong."""

    row: Row
    text: str
    verdict: str


def rows(text: str, each: bool = False) -> list[Row]:
    """Read a table; `each`: an expression is a row of its own."""
    out: list[Row] = []
    group = ""
    for line in text.strip().splitlines():
        if re.fullmatch("[a-z ]+", line):
            group = line
        elif each:
            out += [Row(group, t.strip(), (t.strip(),)) for t in line.split("; ")]
        else:
            name, texts = line.split(": ", 1)
            out.append(Row(group, name, tuple(t.strip() for t in texts.split("; "))))
    return out


def inputs(dtype: str, n: int) -> dict[str, Any]:
    """Return what the variables of an instance are."""
    rng = np.random.default_rng(n)

    def array(*shape: int) -> Any:
        values = rng.integers(-6, 7, shape) * 0.5  # with ties
        if dtype.startswith("float"):
            values = values + np.where(rng.random(shape) < 0.3, rng.standard_normal(shape), 0)
            values = np.where(rng.random(shape) < 0.1, rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.5], shape), values)
        return np.abs(values).astype(dtype) if dtype in ("uint8", "bool") else values.astype(dtype)

    def plain(*shape: int) -> Any:
        return (rng.integers(1, 9, shape) * 0.5).astype(dtype)

    square = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    real = dtype if dtype.startswith("float") else "float64"
    return {
        "x": array(n, 4), "y": array(n, 4), "v": array(n), "w": array(n), "a": array(2, n, 3), "r": plain(4, 3),
        "q": square.astype(real), "p": rng.standard_normal((3, 3)).astype(real), "z": array(), "u": array(2)[1],
        "d": (square @ square.T).astype(real), "i": rng.integers(0, 4, n), "j": rng.integers(0, 3, n),
        "b": rng.random(n) < 0.5, "m": rng.random((n, 4)) < 0.5, "k": int(rng.integers(1, 4)),
        "s": float(rng.uniform(1, 2)), "e": np.sort(plain(7)), "g": rng.integers(0, max(n, 1), (n, 4)),
    }  # fmt: skip


def names_of(text: str) -> list[str]:
    """Return the variables that an expression names, in order."""
    tree = ast.parse(text, mode="eval")
    bound = {a.arg for node in ast.walk(tree) if isinstance(node, ast.Lambda) for a in node.args.args}
    bound |= {t.id for node in ast.walk(tree) if isinstance(node, ast.comprehension) for t in [node.target]
              if isinstance(t, ast.Name)}  # fmt: skip
    known = inputs("float64", 1)
    return sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in known} - bound)


HEAD = """
import math
import numpy as np
try:
    from scipy.special import *
except ImportError:
    pass
"""


def module_of(texts: Sequence[str], folder: Path) -> types.ModuleType:
    """Return a module with a function for each expression, f0, f1, ..., of what it names."""
    lines = [HEAD]
    for k, text in enumerate(texts):
        lines.append(f"def f{k}({', '.join(['_x', *names_of(text)])}):\n    return {text}\n")
    path = folder / f"numpy_table_{abs(hash(tuple(texts)))}.py"
    path.write_text("\n".join(lines), encoding="utf-8")
    return import_file(path)


def cases(text: str, f: Any, dtypes: Sequence[str]) -> Iterator[tuple[str, list[list[Any]]]]:
    """Yield the columns of mini-batches, by dtype, of what the plain call can compute."""
    names = names_of(text)
    if not set(names) & set("xyvwareuzqpd"):
        dtypes = dtypes[:1]
    for dtype in dtypes:
        instances = []
        for n in EXTENTS:
            given = inputs(dtype, n)
            instance = [0, *(given[name] for name in names)]
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    result = f(*instance)
                except TypeError:  # NumPy has no such function of the dtype
                    continue
                except Exception:
                    result = None
                if any(getattr(x, "dtype", 0) == np.float16 for x in (result if type(result) is tuple else [result])):
                    continue
            instances.append(instance)
        if instances:
            yield dtype, [list(c) for c in zip(*instances, strict=True)]


def try_text(text: str, f: Any, through: str, dtypes: Sequence[str] = DTYPES) -> str:
    """Return "works", the code of the rejection, or what is wrong."""
    from acronumba import AcronumbaError, model
    from tests.support.plain_call import outcomes, plain

    m = model(f)
    run = {"interpreter": m._interpret, "compiled": m.batch, "simulator": m.on("simulator").batch}[through]
    ulps = next((u for part, u in OFF.items() if part in text), ULPS)
    tried = False
    for dtype, columns in cases(text, f, dtypes):
        tried = True
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            wanted = plain(f, *columns)
            try:
                mine = outcomes(run, *columns)
            except AcronumbaError as error:
                seen = str(error).strip().splitlines()
                return f"rejected {error.code} of {dtype}: {seen[0]} {' | '.join(seen[-3:])}"
            except Exception as error:
                return f"CRASH of {dtype}: {type(error).__name__}: {error}"
        for k, (got, theirs) in enumerate(zip(mine, wanted, strict=True)):
            if found := difference(got, theirs, ulps):
                return f"WRONG of {dtype}, n={EXTENTS[k]}: {found}"
    return "works" if tried else "nothing to try"


def try_rows(given: Sequence[Row], through: str, folder: Path, dtypes: Sequence[str] = DTYPES) -> list[Found]:
    texts = list(dict.fromkeys(itertools.chain.from_iterable(row.texts for row in given)))
    module = module_of(texts, folder)
    verdicts = {t: try_text(t, getattr(module, f"f{k}"), through, dtypes) for k, t in enumerate(texts)}
    return [Found(row, t, verdicts[t]) for row in given for t in row.texts]


TABLES = {"array api": (ARRAY_API, False), "usual": (USUAL, True), "special": (SPECIAL, False), "math": (MATH, False)}


# What of the Array API standard is rejected, and why.
REASONS = {
    "fft": "complex numbers", "ifft": "complex numbers", "fftn": "complex numbers", "ifftn": "complex numbers",
    "rfft": "complex numbers", "irfft": "complex numbers", "rfftn": "complex numbers", "irfftn": "complex numbers",
    "hfft": "complex numbers", "ihfft": "complex numbers",
    "eigh": "the signs of eigenvectors are open; `np.linalg.eigvalsh` works",
    "unique_values": "the order of its result is open, and is no order in NumPy; `np.unique` works",
}  # fmt: skip


def supported() -> str:
    """Return the lists of functions that models may call, as they are shown in `docs/language.md`."""
    import acronumba.frontend.lower  # noqa: F401  # registers all functions
    from acronumba.frontend.calls.tables import ROWS
    from acronumba.frontend.library.decorators import LATER

    names: dict[str, set[str]] = {}
    for row in ROWS.values():
        module, _, name = row.what.rpartition(".")
        if module.startswith("np.") and name in ("reduce", "accumulate", "reduceat", "outer", "at"):
            module, name = f"ufunc.{name}", module.removeprefix("np.")
        if module != "np" or hasattr(np, name):  # not SciPy's ufuncs, which do not say whose they are
            names.setdefault(module, set()).add(name)
    lines = ["| | |", "|---|---|"]
    shown = {"np": "`np.`", "np.linalg": "`np.linalg.`", "numpy.fft": "`np.fft.`"}
    shown |= {"numpy.lib.stride_tricks": "`np.lib.stride_tricks.`", "math": "`math.`"}
    for module, title in shown.items():
        lines.append(f"| {title} | {_listed(names[module])} |")
    for path in ("scipy.special", "scipy.spatial.distance", "scipy.linalg"):
        functions = {name.rpartition(".")[2] for name in LATER if name.rpartition(".")[0] == path}
        lines.append(f"| `{path}.`, where a module has imported it | {_listed(functions)} |")
    methods = {f.__name__ for f in ROWS if getattr(f, "__objclass__", None) is np.ndarray}
    lines.append(f"| methods of arrays | {_listed(methods)} |")
    for kind in ("reduce", "accumulate", "reduceat", "at"):
        lines.append(f"| `np.UFUNC.{kind}` of | {_listed(names[f'ufunc.{kind}'])} |")
    lines.append("| `np.UFUNC.outer`, `out=`, `where=` and `dtype=` | of all ufuncs with one result |")
    return "\n".join(lines) + "\n"


def _listed(names: set[str]) -> str:
    return f"`{' '.join(sorted(n for n in names if not n.startswith('__')))}`"


def main() -> None:
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--through", choices=["interpreter", "compiled", "simulator"], default="interpreter")
    parser.add_argument("--only", default="")
    parser.add_argument("--table", choices=TABLES)
    parser.add_argument("--all", action="store_true", help="show what works, too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, each) in TABLES.items():
            if given.table not in (None, name):
                continue
            start = time.perf_counter()
            wanted = [r for r in rows(text, each) if given.only in r.name or any(given.only in t for t in r.texts)]
            if not wanted:
                continue
            found = try_rows(wanted, given.through, Path(folder))
            bad = {f.row.name for f in found if f.verdict != "works"}
            for f in found:
                if f.verdict != "works" or given.all:
                    print(f"{f.text}: {f.verdict}"[:300])
            seconds = time.perf_counter() - start
            print(f"{name}: {len(wanted) - len(bad)} of {len(wanted)} work ({seconds:.0f} s)", flush=True)
