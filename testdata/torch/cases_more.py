"""Operators that came later: special functions, bits, more reductions, shapes, pooling, losses and lists."""
from make_ops import *


def functions():
    kinds = {
        "erfc": "any", "erfinv": "small", "sinh": "any", "cosh": "any", "asin": "small", "acos": "small", "asinh": "any", "atanh": "small", "exp2": "any",
        "frac": "any", "logit": "unit", "lgamma": "pos", "digamma": "pos", "selu": "any", "mish": "any",
    }
    for name, kind in kinds.items():
        C(name, T(2, 3, kind=kind))
        C(name, T(3, 2, dtype=f32, kind=kind, seed=1, nc=True), tol=1e-4 if name in ("erfinv", "digamma") else None)
        C(name, T(0, 2, dtype=f32))
    C("acosh", T(2, 3, kind="pos") + 1)
    C("acosh", layout((T(3, 2, dtype=f32, kind="pos") + 1).contiguous(), True))
    C("celu", T(2, 3), 0.7)
    C("celu", T(2, 3, dtype=f32, nc=True), 1.0)
    for name in ("hardshrink", "softshrink"):
        C(name, T(2, 3), 0.5)
        C(name, T(2, 3, dtype=f32, nc=True), 1.0)
    C("threshold", T(2, 3), 0.25, -1.0)
    C("threshold", T(2, 3, dtype=f32, nc=True), 0.0, 20.0)
    C("hypot", T(2, 3), T(3, seed=1))
    C("hypot", T(2, 3, dtype=f32, nc=True), T(2, 3, dtype=f32, seed=1))
    C("floor_divide", T(2, 3), T(3, kind="pos", seed=1), grad=False)
    C("floor_divide", V([7, -7, 8], i64), V([2, 2, -3], i64))
    for name in ("bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor"):
        C(name, V([6, 3, -1], i64), V([3, 5, 8], i64))
        C(name, T(2, 3, dtype=b8, nc=True), T(3, dtype=b8, seed=1))
    C("bitwise_not", V([6, 3, -1], i32))
    C("bitwise_not", T(4, dtype=b8))
    C("masked_scatter", T(2, 3), V([[1, 0, 1], [0, 1, 0]], b8), T(4, seed=1))
    C("masked_scatter", T(2, 3, dtype=f32, nc=True), V([1, 0, 1], b8), T(6, dtype=f32, seed=1))


def reductions():
    holes = V([[1.5, nan, 2.0], [nan, nan, -1.0]])
    for name in ("nansum", "nanmean"):
        C(name, T(2, 3), [1], True)
        C(name, T(2, 3, dtype=f32, nc=True), [0], False)
        C(name, holes, [1], False, grad=False)
    C("std_mean.correction", T(3, 4), [1], correction=1, keepdim=True)
    C("std_mean.correction", T(3, 4, dtype=f32, nc=True), [0, 1], correction=0, keepdim=False)
    C("cummax", T(3, 4), 1)
    C("cummax", T(3, 4, dtype=f32, nc=True), 0)
    C("logcumsumexp", T(3, 4), 1)
    C("logcumsumexp", T(3, 4, dtype=f32, nc=True), 0)
    C("aminmax", T(3, 4), dim=1, keepdim=True, grad=False)
    C("aminmax", T(3, 4, dtype=f32, nc=True), dim=0, keepdim=False, grad=False)
    C("mode", V([[1, 2, 2, 3], [4, 4, 1, 1]], i64), 1, False)
    C("mode", V([[1.0, 2.0, 2.0], [4.0, 4.0, 1.0]]), 1, True, check=False)
    C("histc", T(2, 5), 4, -2, 2, grad=False)
    C("histc", T(2, 5, dtype=f32, nc=True), 3, 0, 0, grad=False)
    C("bucketize.Tensor", T(2, 3), V([-1.0, 0.0, 1.0]), grad=False)
    C("bucketize.Tensor", V([1, 3, 5], i64), V([1, 3, 4], i64))


def shapes():
    C("tile", T(2, 3), [2, 1, 2])
    C("tile", T(2, 3, dtype=f32, nc=True), [2])
    C("rot90", T(2, 3), 1, [0, 1])
    C("rot90", T(2, 3, 2, dtype=f32, nc=True), -1, [1, 2])
    C("kron", T(2, 2), T(1, 3, seed=1))
    C("kron", T(2, dtype=f32), T(2, 2, dtype=f32, seed=1))
    C("diag", T(3), 1)
    C("diag", T(3, 4, dtype=f32, nc=True), -1)
    C("block_diag", [T(2, 2), T(1, 3, seed=1)])
    C("block_diag", [T(2, 2, dtype=f32, nc=True), T(3, dtype=f32)])
    C("channel_shuffle", T(1, 4, 2, 2), 2)
    C("channel_shuffle", T(2, 6, 3, dtype=f32), 3)


def linear():
    C("linalg_cross", T(2, 3), T(2, 3, seed=1), dim=-1)
    C("linalg_cross", T(3, 2, dtype=f32, nc=True), T(3, 2, dtype=f32, seed=1), dim=0)
    C("linalg_norm", T(2, 3), 2.0, [1], True)
    C("linalg_norm", T(2, 3, dtype=f32, nc=True), 1.0, [0, 1], False)
    C("linalg_pinv", T(3, 2), 1e-9)
    C("linalg_pinv", T(2, 3, dtype=f32, nc=True), 1e-5, tol=1e-3)
    C("linalg_matrix_power", T(2, 2), 3)
    C("linalg_matrix_power", T(2, 2, dtype=f32, nc=True) + 3 * torch.eye(2), -2, tol=1e-3)
    C("addmv", T(2), T(2, 3), T(3, seed=1))
    C("addmv", T(2, dtype=f32), T(2, 3, dtype=f32, nc=True), T(3, dtype=f32, seed=1))
    C("dist", T(2, 3), T(3, seed=1), 2)
    C("dist", T(2, 3, dtype=f32, nc=True), T(2, 3, dtype=f32, seed=1), 1.0)
    C("renorm", T(3, 4), 2, 0, 1.5)
    C("renorm", T(3, 4, dtype=f32, nc=True), 1, 1, 2.0)


def images():
    C("conv3d", T(1, 2, 3, 3, 2), T(2, 1, 2, 2, 2, seed=1), T(2, seed=2), [1, 1, 1], [0, 1, 0], [1, 1, 1], 2)
    C("conv3d", T(1, 1, 2, 3, 3, dtype=f32, nc=True), T(2, 1, 1, 2, 2, dtype=f32, seed=1), None, [1, 2, 1], [0, 0, 0], [1, 1, 1], 1)
    C("conv_transpose1d", T(1, 2, 3), T(2, 2, 3, seed=1), T(2, seed=2), [2], [1], [1], 1, [1])
    C("conv_transpose1d", T(1, 2, 3, dtype=f32, nc=True), T(2, 1, 2, dtype=f32, seed=1), None, [1], [0], [0], 2, [2])
    C("max_pool1d", T(1, 2, 6), [2], [], [0], [1], False)
    C("max_pool1d", T(1, 2, 7, dtype=f32, nc=True), [3], [2], [1], [1], True)
    C("avg_pool1d", T(1, 2, 6), [2], [], [0], False, True)
    C("avg_pool1d", T(1, 2, 7, dtype=f32, nc=True), [3], [2], [1], True, False)
    C("adaptive_avg_pool1d", T(1, 2, 7), [3])
    C("adaptive_avg_pool1d", T(2, 2, 5, dtype=f32, nc=True), [1])
    C("max_pool3d", T(1, 1, 4, 3, 2), [2, 2, 1], [], [0, 0, 0], [1, 1, 1], False)
    C("max_pool3d", T(1, 2, 3, 3, 3, dtype=f32, nc=True), [2, 2, 2], [1, 1, 1], [1, 0, 0], [1, 1, 1], True)
    C("avg_pool3d", T(1, 1, 4, 3, 2), [2, 2, 1], [], [0, 0, 0], False, True)
    C("avg_pool3d", T(1, 2, 3, 3, 3, dtype=f32, nc=True), [2, 2, 2], [1, 1, 1], [1, 0, 0], True, False)
    C("im2col", T(1, 2, 3, 4), [2, 2], [1, 1], [1, 0], [1, 2])
    C("im2col", T(2, 1, 4, 3, dtype=f32, nc=True), [2, 1], [2, 1], [0, 0], [1, 1])
    C("col2im", T(1, 8, 6), [3, 4], [2, 2], [1, 1], [0, 0], [1, 1])
    C("col2im", T(1, 4, 12, dtype=f32, nc=True), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1])
    for mode in (0, 1, 2):
        for padding in (0, 1, 2):
            C("grid_sampler", T(1, 2, 3, 4), T(1, 2, 3, 2, kind="small", seed=1) * 1.3, mode, padding, mode == 1, check=False, nograd=(1,) if mode == 1 else ())
    C("grid_sampler", T(1, 2, 3, 3, dtype=f32, nc=True), T(1, 2, 2, 2, dtype=f32, kind="small", seed=1), 0, 0, True)
    C("grid_sampler", T(1, 1, 3, 4), T(1, 2, 2, 2, kind="small", seed=1) * 0.9, 2, 0, False)
    C("affine_grid_generator", T(1, 2, 3), [1, 1, 2, 3], False)
    C("affine_grid_generator", T(2, 2, 3, dtype=f32, nc=True), [2, 1, 2, 2], True)
    C("pixel_unshuffle", T(1, 2, 4, 2), 2)
    C("pixel_unshuffle", T(1, 1, 3, 3, dtype=f32, nc=True), 3)
    for train in (True, False):
        C("feature_dropout", T(3, 4, 2, 2), 0.4, train, seed=3)
        C("feature_dropout", T(2, 5, 3, dtype=f32, nc=True), 0.5, train, seed=4)


def losses():
    sign = V([1.0, -1.0, 1.0])
    for r in (0, 1, 2):
        C("margin_ranking_loss", T(3), T(3, seed=1), sign, 0.25, r, nograd=(2,))
        C("cosine_embedding_loss", T(3, 4), T(3, 4, seed=1), sign, 0.1, r, nograd=(2,))
        C("triplet_margin_loss", T(3, 4), T(3, 4, seed=1), T(3, 4, seed=2), 1.0, 2.0, 1e-6, r == 1, r)
        C("hinge_embedding_loss", T(3), sign, 1.0, r, nograd=(1,))
        C("soft_margin_loss", T(3), sign, r, nograd=(1,))
    s32 = sign.float()
    C("margin_ranking_loss", T(3, dtype=f32), T(3, dtype=f32, seed=1), s32, 0.25, 1, nograd=(2,))
    C("cosine_embedding_loss", T(3, 4, dtype=f32, nc=True), T(3, 4, dtype=f32, seed=1), s32, 0.1, 1, nograd=(2,))
    C("triplet_margin_loss", T(3, 4, dtype=f32, nc=True), T(3, 4, dtype=f32, seed=1), T(3, 4, dtype=f32, seed=2), 0.5, 1.0, 1e-6, False, 1)
    C("hinge_embedding_loss", T(3, dtype=f32), s32, 0.5, 1, nograd=(1,))
    C("soft_margin_loss", T(3, dtype=f32), s32, 1, nograd=(1,))


def lists():
    def pair(seed=0, dtype=f64, kind="any"):
        return [T(2, 3, seed=seed, dtype=dtype, kind=kind), T(4, seed=seed + 1, dtype=dtype, kind=kind)]

    for dt in (f64, f32):
        C("_foreach_mul.Scalar", pair(dtype=dt), 2.5)
        C("_foreach_add.Scalar", pair(dtype=dt), 2.5)
        C("_foreach_sub.List", pair(dtype=dt), pair(2, dt), alpha=0.5)
        C("_foreach_sub_.List", pair(dtype=dt), pair(2, dt), alpha=2.0)
        C("_foreach_div_.List", pair(dtype=dt), pair(2, dt, "pos"))
        C("_foreach_mul_.Tensor", pair(dtype=dt), T(dtype=dt))
        C("_foreach_maximum_.List", pair(dtype=dt), pair(2, dt))
        C("_foreach_neg", pair(dtype=dt))
        C("_foreach_abs", pair(dtype=dt))
        C("_foreach_pow.Scalar", pair(dtype=dt, kind="pos"), 1.5)
        C("_foreach_lerp_.List", pair(dtype=dt), pair(2, dt), pair(4, dt, "unit"))
        C("_foreach_clamp_min_.Scalar", pair(dtype=dt), 0.3)


def add():
    for f in (functions, reductions, shapes, linear, images, losses, lists):
        f()
