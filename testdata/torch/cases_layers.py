"""Linear algebra, convolution, pooling, normalisation, losses, random numbers, lists of tensors."""
from make_ops import *


def linear_algebra():
    def both(name, a, b):
        C(name, T(*a), T(*b, seed=1))
        C(name, T(*a, dtype=f32, nc=True), T(*b, dtype=f32, seed=1, nc=True))
        C(name, T(*a, dtype=i64), T(*b, dtype=i64, seed=1))

    both("matmul", (2, 1, 2, 3), (2, 3, 2))
    both("matmul", (3,), (3,))
    both("matmul", (2, 3), (3,))
    C("matmul", T(2, 0), T(0, 3))
    both("mm", (2, 3), (3, 2))
    C("mm", T(0, 3), T(3, 2))
    both("bmm", (2, 2, 3), (2, 3, 1))
    both("mv", (2, 3), (3,))
    both("dot", (3,), (3,))
    both("outer", (2,), (3,))
    C("addmm", T(2), T(2, 3), T(3, 2, seed=1))
    C("addmm", T(2, 2, dtype=f32, nc=True), T(2, 3, dtype=f32, nc=True), T(3, 2, dtype=f32, seed=1))
    C("addmm", T(2), T(2, 3), T(3, 2, seed=1), beta=0.5, alpha=2)
    C("baddbmm", T(2, 1, 2), T(2, 2, 3), T(2, 3, 2, seed=1), beta=0.5, alpha=-2)
    C("baddbmm", T(2, 2, dtype=f32), T(2, 2, 3, dtype=f32, nc=True), T(2, 3, 2, dtype=f32, seed=1), beta=1, alpha=1)
    C("linear", T(2, 2, 3), T(4, 3, seed=1), T(4, seed=2))
    C("linear", T(2, 3, dtype=f32, nc=True), T(4, 3, dtype=f32, seed=1, nc=True), None)
    C("einsum", "bik,bkj->bij", [T(2, 2, 3), T(2, 3, 2, seed=1)])
    C("einsum", "ii->i", [T(3, 3, dtype=f32, nc=True)])
    C("einsum", "i,j,k->", [T(2), T(2, seed=1), T(3, seed=2)])
    C("tensordot", T(2, 3, 2), T(3, 2, seed=1), [1, 2], [0, 1])
    C("tensordot", T(2, 3, dtype=f32, nc=True), T(2, 2, dtype=f32), [0], [1])
    C("trace", T(3, 3))
    C("trace", T(2, 3, dtype=i64, nc=True))
    C("cdist", T(2, 3), T(4, 3, seed=1), 2.0)
    C("cdist", T(2, 3), T(2, 3, seed=1), 1.0)
    C("cdist", T(2, 2, 3, dtype=f32, nc=True), T(2, 3, 3, dtype=f32, seed=1), 3.0)
    square = T(3, 3) + 4 * torch.eye(3, dtype=f64)
    C("linalg_solve", square, T(3, 2, seed=1))
    C("linalg_solve", (square.float()).contiguous(), T(3, dtype=f32), tol=1e-4)
    for name in ("linalg_inv", "linalg_det", "linalg_slogdet"):
        C(name, square)
        C(name, layout(torch.stack([square, square.t() + 1]).float(), True), tol=1e-4)
    spd = square @ square.t() / 8 + torch.eye(3, dtype=f64)
    C("linalg_cholesky", spd, check=False)  # differences break the symmetry it relies on
    C("linalg_cholesky", spd.float(), tol=1e-4, check=False)
    C("linalg_svd", T(3, 2), False, cmp="abs", through=1)  # the vectors' signs are free
    C("linalg_svd", T(2, 3, dtype=f32, nc=True), True, grad=False, cmp="abs", tol=1e-4)
    C("linalg_eigh", spd, cmp="abs", through=0, check=False)
    C("linalg_eigh", spd.float(), grad=False, cmp="abs", tol=1e-4)
    C("linalg_qr", T(3, 2))
    C("linalg_qr", T(3, 3, dtype=f32, nc=True), tol=1e-4)
    C("cosine_similarity", T(2, 3), T(2, 3, seed=1), 1, 1e-8)
    C("cosine_similarity", T(2, 3, dtype=f32, nc=True), T(3, dtype=f32, seed=1), 1, 1e-6)


def convolution():
    C("conv2d", T(1, 4, 4, 3), T(2, 2, 2, 2, seed=1), T(2, seed=2), [2, 1], [1, 0], [1, 2], 2)
    C("conv2d", T(2, 2, 3, 3, dtype=f32, nc=True), T(3, 2, 2, 2, dtype=f32, seed=1), None, [1, 1], [1, 1], [1, 1], 1)
    C("conv2d", T(1, 2, 3, 3), T(2, 1, 3, 3, seed=1), T(2), [1, 1], [1, 1], [1, 1], 2)
    C("conv2d", T(0, 2, 3, 3), T(2, 2, 2, 2, seed=1), T(2), [1, 1], [0, 0], [1, 1], 1, check=False)
    C("conv1d", T(1, 2, 5), T(3, 2, 2, seed=1), T(3, seed=2), [2], [1], [1], 1)
    C("conv1d", T(2, 2, 4, dtype=f32, nc=True), T(2, 1, 3, dtype=f32, seed=1), None, [1], [0], [1], 2)
    C("conv_transpose2d.input", T(1, 2, 2, 3), T(2, 2, 2, 2, seed=1), T(2, seed=2), [2, 2], [1, 0], [1, 0], 1, [1, 1])
    C("conv_transpose2d.input", T(1, 2, 2, 2, dtype=f32, nc=True), T(2, 1, 2, 2, dtype=f32, seed=1), None, [1, 1], [0, 0], [0, 0], 2, [2, 1])
    C("max_pool2d", T(1, 2, 4, 4), [2, 2], [], [0, 0], [1, 1], False)
    C("max_pool2d", T(1, 2, 4, 5, dtype=f32, nc=True), [3, 2], [2, 2], [1, 1], [1, 1], True)
    C("max_pool2d_with_indices", T(1, 2, 4, 4), [2, 2], [1, 2], [0, 0], [2, 1], False)
    C("max_pool2d_with_indices", T(1, 2, 4, 4, dtype=f32, nc=True), [2, 2], [], [1, 1], [1, 1], True)
    C("avg_pool2d", T(1, 2, 4, 4), [2, 2], [], [0, 0], False, True)
    C("avg_pool2d", T(1, 2, 4, 5), [3, 2], [2, 2], [1, 1], True, False)
    C("avg_pool2d", T(1, 2, 4, 4, dtype=f32, nc=True), [2, 2], [1, 1], [1, 1], False, True)
    C("adaptive_avg_pool2d", T(1, 2, 4, 5), [2, 3])
    C("adaptive_avg_pool2d", T(2, 2, 3, 3, dtype=f32, nc=True), [1, 1])
    C("adaptive_max_pool2d", T(1, 2, 4, 5), [2, 3])
    C("adaptive_max_pool2d", T(2, 2, 3, 3, dtype=f32, nc=True), [1, 2])
    C("upsample_nearest2d", T(1, 2, 2, 3), [4, 5])
    C("upsample_nearest2d", T(1, 2, 2, 3, dtype=f32, nc=True), [3, 3])
    for name in ("upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
        for corners in (False, True):
            C(name, T(1, 1, 4, 5), [3, 3], corners)
        C(name, T(1, 2, 3, 3, dtype=f32, nc=True), [5, 4], False)
    C("pixel_shuffle", T(1, 4, 2, 2), 2)
    C("pixel_shuffle", T(1, 4, 1, 2, dtype=f32, nc=True), 2)


def normalisation():
    def stats(c, dtype=f64):
        return T(c, dtype=dtype, seed=5), T(c, dtype=dtype, kind="pos", seed=6)

    for training in (True, False):
        for x, dtype in ((T(3, 2, 2, 2), f64), (T(3, 2, 2, dtype=f32, nc=True), f32)):
            C("batch_norm", x, T(2, dtype=dtype, seed=1), T(2, dtype=dtype, seed=2), *stats(2, dtype), training, 0.1, 1e-5, True, nograd=(3, 4))
            C("instance_norm", x, T(2, dtype=dtype, seed=1), T(2, dtype=dtype, seed=2), *stats(2, dtype), training, 0.1, 1e-5, True, nograd=(3, 4))
    C("batch_norm", T(3, 2), None, None, None, None, True, 0.1, 1e-3, False)
    C("instance_norm", T(2, 2, 3), None, None, None, None, True, 0.1, 1e-3, False)
    C("layer_norm", T(2, 2, 3), [2, 3], T(2, 3, seed=1), T(2, 3, seed=2), 1e-5)
    C("layer_norm", T(2, 3, dtype=f32, nc=True), [3], None, None, 1e-3)
    C("group_norm", T(2, 4, 3), 2, T(4, seed=1), T(4, seed=2), 1e-5)
    C("group_norm", T(2, 4, 2, dtype=f32, nc=True), 4, None, None, 1e-3)
    C("rms_norm", T(2, 3), [3], T(3, seed=1), 1e-5)
    C("rms_norm", T(2, 2, 3, dtype=f32, nc=True), [2, 3], None, 1e-3)


def layers():
    C("softmax.int", T(2, 3), 1)
    C("softmax.int", T(2, 3, dtype=f32, nc=True), 0)
    C("softmax.int", V([[1000.0, 1000.0, -inf]]), -1, grad=False)
    C("softmax.int", T(2, 3, dtype=f32), 1, f64)
    C("log_softmax.int", T(2, 3), 1)
    C("log_softmax.int", T(2, 3, dtype=f32, nc=True), 0)
    C("log_softmax.int", T(0, 3), 1)
    for train in (True, False):
        C("dropout", T(4, 5), 0.3, train, seed=3)
        C("dropout", T(5, 6, dtype=f32, nc=True), 0.5, train, seed=4)
    C("embedding", T(4, 3), V([[0, 3], [3, 1]], i64))
    C("embedding", T(4, 3, dtype=f32, nc=True), V(2, i32))
    C("embedding", T(4, 3), V([1, 2, 1], i64), 1, check=False)  # the padding row gets no gradient
    q = lambda **kw: (T(1, 2, 3, 4, **kw), T(1, 2, 2, 4, seed=1, **kw), T(1, 2, 2, 4, seed=2, **kw))
    C("scaled_dot_product_attention", *q(), None, 0.0, False)
    C("scaled_dot_product_attention", *q(), T(3, 2, seed=3), 0.0, False, check=False)
    C("scaled_dot_product_attention", *q(dtype=f32), V([[True, False], [True, True], [False, True]], b8), 0.0, False)
    C("scaled_dot_product_attention", *q(dtype=f32, nc=True), None, 0.0, True)


def losses():
    for r in (0, 1, 2):
        C("mse_loss", T(2, 3), T(2, 3, seed=1), r)
        C("l1_loss", T(2, 3), T(2, 3, seed=1) + 1 / 64, r)
        C("cross_entropy_loss", T(2, 3), V([2, 0], i64), None, r)
        C("nll_loss", T(2, 3), V([2, 0], i64), T(3, kind="unit"), r, nograd=(2,))
        C("binary_cross_entropy_with_logits", T(2, 3), T(2, 3, kind="unit"), None, None, r)
        C("binary_cross_entropy", T(2, 3, kind="unit"), T(2, 3, kind="unit", seed=1), None, r)
        C("kl_div", T(2, 3), T(2, 3, kind="unit"), r)
        C("smooth_l1_loss", T(2, 3), T(2, 3, seed=1) + 1 / 64, r, 0.7)
        C("huber_loss", T(2, 3), T(2, 3, seed=1) + 1 / 64, r, 1.3)
    C("mse_loss", T(2, 3, dtype=f32, nc=True), T(2, 3, dtype=f32, seed=1), 1)
    C("l1_loss", T(2, 3, dtype=f32, nc=True), T(2, 3, dtype=f32, seed=1), 1)
    C("cross_entropy_loss", T(2, 3, 2, dtype=f32, nc=True), V([[2, 0], [1, -100]], i64), T(3, dtype=f32, kind="unit"), 1, nograd=(2,))
    C("cross_entropy_loss", T(2, 3), T(2, 3, kind="unit"), None, 1)
    C("cross_entropy_loss", T(2, 3), V([2, 0], i64), None, 1, label_smoothing=0.1)
    C("nll_loss", T(2, 3, dtype=f32, nc=True), V([0, 1], i64), None, 1)
    C("binary_cross_entropy_with_logits", T(2, 3, kind="wide"), T(2, 3, dtype=b8).to(f64), T(3, kind="pos"), T(3, kind="pos", seed=1), 1, nograd=(1, 2, 3))
    C("binary_cross_entropy_with_logits", T(2, 3, dtype=f32, nc=True), T(2, 3, dtype=f32, kind="unit"), None, None, 2)
    C("binary_cross_entropy", V([[0.0, 1.0], [0.5, 1.0]], f32), V([[1.0, 0.0], [0.5, 1.0]], f32), V([2.0, 1.0], f32), 0, grad=False)
    C("kl_div", T(2, 3, dtype=f32, nc=True), T(2, 3, dtype=f32, kind="unit"), 2)
    C("smooth_l1_loss", T(2, 3, dtype=f32, nc=True), T(2, 3, dtype=f32, seed=1), 1, 1.0)
    C("huber_loss", T(2, 3, dtype=f32, nc=True), T(2, 3, dtype=f32, seed=1), 1, 1.0)


def random():
    for dtype in (f64, f32):
        for n in (5, 40):
            x = torch.zeros(n, dtype=dtype)
            C("uniform_", x, -1.0, 2.0, generator=None, seed=11, grad=False)
            C("normal_", x, 1.0, 2.0, generator=None, seed=12, grad=False)
            C("bernoulli_.float", x, 0.3, generator=None, seed=13, grad=False)
            C("bernoulli_.Tensor", x, T(n, kind="unit"), generator=None, seed=13, grad=False)
            C("exponential_", x, 1.5, generator=None, seed=14, grad=False)
            C("geometric_", x, 0.2, generator=None, seed=15, grad=False)
            C("bernoulli", T(n, dtype=dtype, kind="unit"), generator=None, seed=16, grad=False)
    C("random_.from", torch.zeros(9, dtype=i64), -3, 12, generator=None, seed=17, grad=False)
    C("random_.from", torch.zeros(3, 3, dtype=f32), 0, 100, generator=None, seed=18, grad=False)
    C("multinomial", T(6, kind="unit"), 4, False, generator=None, seed=19)
    C("multinomial", T(2, 6, dtype=f32, kind="unit"), 8, True, generator=None, seed=20)


def many():
    def lists(n, dtype=f64, kind="any"):
        return [[T(2, 2, dtype=dtype, kind=kind, seed=10 * k), T(3, dtype=dtype, kind=kind, seed=10 * k + 1)] for k in range(n)]

    off = dict(grad=False)
    for d in (f64, f32):
        a, b = lists(2, d)
        p = lists(3, d, "pos")
        C("_foreach_add_.Scalar", a, 1.5, **off)
        C("_foreach_add_.List", a, b, alpha=-0.5, **off)
        C("_foreach_add.List", a, b, alpha=2)
        C("_foreach_mul_.Scalar", a, 1.5, **off)
        C("_foreach_mul_.List", a, b, **off)
        C("_foreach_div_.Scalar", a, 3, **off)
        C("_foreach_lerp_.Scalar", a, b, 0.25, **off)
        C("_foreach_norm.Scalar", a, 2)
        C("_foreach_sqrt", p[0])
        C("_foreach_addcmul_.Scalar", a, b, p[0], -0.5, **off)
        C("_foreach_addcdiv_.Scalar", a, b, p[0], -0.5, **off)
        C("_foreach_copy_", a, b, **off)
        C("_foreach_zero_", a, **off)
        steps = [torch.tensor(3.0), torch.tensor(3.0)]
        for first in (True, False):
            C("_fused_sgd_", a, b, p[0], weight_decay=0.01, momentum=0.9, lr=0.1, dampening=0.0, nesterov=not first, maximize=False, is_first_step=first, **off)
        for name, wd in (("_fused_adam_", 0.01), ("_fused_adamw_", 0.1)):
            for amsgrad in (False, True):
                C(name, a, b, lists(3, d)[2], p[1], p[2] if amsgrad else [], steps, lr=0.01, beta1=0.9, beta2=0.999, weight_decay=wd, eps=1e-8, amsgrad=amsgrad, maximize=False, **off)
    C("_foreach_add_.Scalar", [T(3, nc=True), T(0), T()], 2, **off)


def add():
    linear_algebra()
    convolution()
    normalisation()
    layers()
    losses()
    random()
    many()
