"""Arithmetic, elementwise functions, comparison, logic, activations without parameters."""
from make_ops import *

SPECIAL = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e300]

# name -> kind of input; the in-place form where there is one
UNARY = {
    "neg": "any", "abs": "any", "sign": "any", "exp": "any", "expm1": "any", "log": "pos", "log1p": "pos", "log2": "pos",
    "log10": "pos", "sqrt": "pos", "rsqrt": "pos", "square": "any", "reciprocal": "pos", "sin": "any", "cos": "any", "tan": "small",
    "atan": "any", "erf": "any", "floor": "any", "ceil": "any", "round": "any", "trunc": "any",
    "relu": "any", "relu6": "wide", "silu": "any", "sigmoid": "any", "log_sigmoid": "any", "tanh": "any", "hardsigmoid": "wide", "hardswish": "wide",
}
FLOATS_ONLY = ("log_sigmoid", "silu", "hardsigmoid", "hardswish")
IN_PLACE = {"neg_": "any", "exp_": "any", "sqrt_": "pos", "relu_": "any", "sigmoid_": "any", "tanh_": "any", "silu_": "any"}


def unary():
    for name, kind in UNARY.items():
        C(name, T(2, 3, kind=kind))
        C(name, T(3, 2, dtype=f32, kind=kind, seed=1, nc=True))
        C(name, T(kind=kind, seed=2))
        C(name, T(0, 2, dtype=f32))
        C(name, V(SPECIAL), grad=False)
        C(name, T(3, dtype=bf16, kind=kind), grad=False)
        if name not in FLOATS_ONLY:
            C(name, T(2, 2, dtype=i64, kind=kind))
    for name, kind in IN_PLACE.items():
        C(name, T(2, 3, kind=kind))
        C(name, T(3, 2, dtype=f32, kind=kind, seed=1, nc=True))
        C(name, T(0, dtype=f32))
    C("neg_", T(3, dtype=i32))
    C("logical_not", T(2, 2, dtype=b8))
    C("logical_not", V([0.0, nan, 2.0]))
    C("logical_not", T(2, 3, dtype=i64, nc=True))
    for name in ("isnan", "isinf", "isfinite"):
        C(name, V(SPECIAL))
        C(name, V([[1.0, nan], [inf, 2.0]], dtype=f32, nc=True))
        C(name, T(3, dtype=i64))
        C(name, T(0, 2))
    for args in ((0.5, 7.0, -8.0), (0.0, 1.0, 2.0)):
        C("nan_to_num", V([nan, inf, -inf, 1.0]), *args, grad=False)
    C("nan_to_num", T(2, 2), 0.0, 1.0, 2.0)
    C("nan_to_num", T(2, 2, dtype=f32, nc=True), 0.0, 1.0, 2.0)


def tensors():
    for name in ("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "maximum", "minimum", "atan2", "logaddexp", "remainder.Tensor", "fmod.Tensor", "pow.Tensor_Tensor", "xlogy.Tensor"):
        a, b = ("pos", "any") if name.startswith("pow") else ("any", "pos")
        r = 0.7 if name in ("remainder.Tensor", "fmod.Tensor") else 1  # no quotient is an integer
        C(name, T(2, 3, kind=a), T(3, kind=b, seed=1) * r)
        C(name, T(3, 2, dtype=f32, kind=a, nc=True), T(3, 2, dtype=f32, kind=b, seed=1, nc=True))
        C(name, T(kind=a), T(2, kind=b, seed=1) * r)
        C(name, T(2, 1, 2, kind=a), T(3, 1, kind=b, seed=3) * r)
        C(name, T(0, 3, kind=a), T(3, kind=b))
        C(name, V([nan, inf, 1.0, -3.0, 0.0, 7.5]), V([1.0, 2.0, nan, 2.0, 0.0, -2.0]), grad=False)
        if name != "logaddexp":
            C(name, V([7, -7, 8, 3], i64), V([2, 3, 4, 2], i64))
            C(name, V([7, -7, 8], i32), T(3, dtype=f32, kind="pos"), nograd=(1,))
    C("add.Tensor", T(2, 2), T(2, 2, seed=1), alpha=-0.5)  # alpha: reached by Call only
    C("add.Tensor", T(2, dtype=b8), T(2, dtype=u8))
    C("sub.Tensor", T(2, 2), T(2, 2, seed=1), alpha=3)
    C("mul.Tensor", T(2, dtype=bf16), T(2, dtype=f32), grad=False)
    for mode in ("trunc", "floor"):
        C("div.Tensor_mode", T(2, 3, kind="wide"), T(3, kind="pos") * 0.7, mode)
        C("div.Tensor_mode", T(2, 3, dtype=f32, kind="wide", nc=True), T(2, 1, dtype=f32, kind="pos"), mode)
        C("div.Tensor_mode", V([7, -7, 8, -9], i64), V([2, 2, -3, 4], i64), mode)
    for name in ("add_.Tensor", "sub_.Tensor", "mul_.Tensor", "div_.Tensor"):
        C(name, T(2, 3), T(3, kind="pos", seed=1))
        C(name, T(3, 2, dtype=f32, nc=True), T(3, 2, dtype=f32, kind="pos", seed=1))
        C(name, T(2, 2, dtype=f32), T(2, dtype=f64, kind="pos"))
        C(name, T(0, 3), T(3))
        if name != "div_.Tensor":
            C(name, T(2, 2, dtype=i64), V([2, 3], i32))
    C("lerp.Scalar", T(2, 3), T(3, seed=1), 0.25)
    C("lerp.Scalar", T(2, 3, dtype=f32, nc=True), T(2, 3, dtype=f32, seed=1), 0.75)
    C("lerp_.Scalar", T(2, 3), T(3, seed=1), 0.25)
    C("lerp_.Scalar", T(2, 3, dtype=f32, nc=True), T(2, 3, dtype=f32, seed=1), 0.75)
    C("lerp.Tensor", T(2, 3), T(3, seed=1), T(2, 1, kind="unit", seed=2))
    C("lerp.Tensor", T(2, 2, dtype=f32, nc=True), T(2, 2, dtype=f32, seed=1), T(2, 2, dtype=f32, kind="unit", nc=True))
    for name, b in (("addcmul", "any"), ("addcmul_", "any"), ("addcdiv", "pos"), ("addcdiv_", "pos")):
        C(name, T(2, 3), T(3, seed=1), T(2, 1, kind=b, seed=2), value=-1.5)
        C(name, T(2, 3, dtype=f32, nc=True), T(2, 3, dtype=f32, seed=1, nc=True), T(2, 3, dtype=f32, kind=b, seed=2), value=2)
    C("addcmul", T(2, dtype=i64), T(2, dtype=i64, seed=1), T(2, dtype=i64, seed=2), value=3)


def scalars():
    for name in ("add.Scalar", "sub.Scalar", "rsub.Scalar", "mul.Scalar", "div.Scalar", "remainder.Scalar"):
        C(name, T(2, 3), 2.5)
        C(name, T(3, 2, dtype=f32, nc=True), 3)
        C(name, T(3, dtype=i64), 2)
        C(name, T(3, dtype=i64), 0.5)
        C(name, T(), -0.75)
        C(name, T(0, 2, dtype=f32), 2)
    C("mul.Scalar", T(3, dtype=b8), True)
    C("add.Scalar", T(3, dtype=u8), 250)
    C("add.Scalar", T(2), 2.5, alpha=2)
    for name in ("add_.Scalar", "sub_.Scalar", "mul_.Scalar", "div_.Scalar"):
        C(name, T(2, 3), 2.5)
        C(name, T(3, 2, dtype=f32, nc=True), 3)
        if name != "div_.Scalar":
            C(name, T(3, dtype=i64), 2)
    for e in (2, 0.5, -1, 3.5, 0):
        C("pow.Tensor_Scalar", T(2, 2, kind="pos"), e)
    C("pow.Tensor_Scalar", T(2, 2, dtype=f32, nc=True), 3)
    C("pow.Tensor_Scalar", T(3, dtype=i64), 3)
    for name in ("clamp", "clamp_"):
        C(name, T(2, 3), -1.0, 1.5)
        C(name, T(2, 3, dtype=f32, nc=True), None, 0.5)
        C(name, T(2, 3), -0.5, None)
        C(name, T(5, dtype=i64), -2, 3)
    C("clamp", V([nan, inf, -inf]), -1, 1, grad=False)
    for name in ("clamp_min", "clamp_max"):
        C(name, T(2, 3), 0.25)
        C(name, T(2, 3, dtype=f32, nc=True), -1)
        C(name, T(5, dtype=i64), 1)
    C("clamp.Tensor", T(2, 3), T(3, seed=1) - 2, T(2, 3, seed=2) + 2)
    C("clamp.Tensor", T(2, 3, dtype=f32, nc=True), None, T(3, dtype=f32))
    C("clamp.Tensor", T(2, 3, dtype=i64), T(3, dtype=i64), None)
    C("hardtanh", T(2, 3), -0.5, 1.25)
    C("hardtanh", T(2, 3, dtype=f32, nc=True), -1, 1)
    C("hardtanh_", T(2, 3), -0.5, 1.25)
    C("hardtanh_", T(2, 3, dtype=f32, nc=True), -1, 1)
    C("leaky_relu", T(2, 3), 0.125)
    C("leaky_relu", T(2, 3, dtype=f32, nc=True), 0.01)
    for a in ("none", "tanh"):
        C("gelu", T(2, 3), approximate=a)
        C("gelu", T(2, 3, dtype=f32, nc=True), approximate=a)
    C("softplus", T(2, 3), 1, 20)
    C("softplus", T(2, 3, kind="wide"), 2.0, 5.0)
    C("softplus", T(2, 3, dtype=f32, nc=True), 1, 20)
    C("elu", T(2, 3), 1.5)
    C("elu", T(2, 3, dtype=f32, nc=True), 1)
    C("prelu", T(2, 3), T(3, kind="unit"))
    C("prelu", T(2, 3, 2, dtype=f32, nc=True), T(1, dtype=f32))
    C("glu", T(2, 4), -1)
    C("glu", T(4, 3, dtype=f32, nc=True), 0)


def comparison():
    x, y = [1.0, 2.0, nan, 3.0, inf, -1.0], [1.0, 3.0, nan, 2.0, inf, -1.0]
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        C(name + ".Tensor", V(x), V(y))
        C(name + ".Tensor", T(2, 3, dtype=f32, nc=True), T(3, dtype=f32))
        C(name + ".Tensor", T(2, 3, dtype=i64), T(2, 1, dtype=f32))
        C(name + ".Tensor", T(3, dtype=b8), T(3, dtype=b8, seed=1))
        C(name + ".Tensor", T(0, 3), T())
        C(name + ".Scalar", V(x), 2)
        C(name + ".Scalar", T(2, 3, dtype=f32, nc=True), 0.5)
        C(name + ".Scalar", T(4, dtype=i64), 1)
        C(name + ".Scalar", T(2, 2, dtype=b8), True)
        C(name + ".Scalar", T(), 0.0)
        C(name + ".Scalar", T(0, 3), 1.0)
    for name in ("logical_and", "logical_or", "logical_xor"):
        C(name, T(2, 3, dtype=b8), T(3, dtype=b8, seed=1))
        C(name, V([0.0, 1.0, nan, 0.0]), V([0, 1, 0, 5], i64))
        C(name, T(2, 3, dtype=b8, nc=True), T(2, 3, dtype=b8, nc=True, seed=1))
    near = V([1.0, 2.0, nan, inf]), V([1.0 + 1e-7, 2.1, nan, inf])
    for eq in (False, True):
        C("isclose", *near, 1e-5, 1e-8, eq)
        C("allclose", *near, 1.0, 1e-8, eq)
    C("isclose", T(2, 3, dtype=f32, nc=True), T(3, dtype=f32), 0.5, 0.1, False)
    C("isclose", T(3, dtype=i64), T(3, dtype=i64, seed=1), 0.0, 2.0, False)
    C("allclose", T(2, 2), T(2, 2) + 1e-9, 0.0, 1e-6, False)
    C("equal", T(2, 3), T(2, 3))
    C("equal", T(2, 3), T(2, 3, seed=1))
    C("equal", T(2, 3), T(6))
    C("equal", T(3, 2, dtype=i64, nc=True), T(3, 2, dtype=i64))
    C("isin.Tensor_Tensor", V([[1, 2], [3, 4]], i64, nc=True), V([2, 3, 9], i64))
    C("isin.Tensor_Tensor", T(4), T(4)[1:3])
    C("where.self", T(2, 3, dtype=b8), T(2, 3), T(3, seed=1))
    C("where.self", T(2, 1, dtype=b8), T(dtype=f32), T(2, 3, dtype=f32, nc=True))
    C("where.self", T(3, dtype=b8), T(3, dtype=i64), T(3, dtype=i32))
    C("where.self", T(0, 3, dtype=b8), T(0, 3), T(3))
    for name in ("masked_fill.Scalar", "masked_fill_.Scalar"):
        C(name, T(2, 3), T(3, dtype=b8), -2.5)
        C(name, T(2, 3, dtype=f32, nc=True), T(2, 1, dtype=b8), -inf)
        C(name, T(2, 3, dtype=i64), T(2, 3, dtype=b8), 7)
    C("masked_select", T(2, 3), T(3, dtype=b8))
    C("masked_select", T(2, 3, dtype=f32, nc=True), T(2, 3, dtype=b8, nc=True))
    C("masked_select", T(2, 3, dtype=i64), torch.zeros(2, 3, dtype=b8))
    C("nonzero", V([[0.0, 1.0, nan], [2.0, 0.0, 0.0]]))
    C("nonzero", T(2, 2, 2, dtype=b8, nc=True))
    C("nonzero", V(3.0))
    C("nonzero", T(0, 3))


def add():
    unary()
    tensors()
    scalars()
    comparison()
