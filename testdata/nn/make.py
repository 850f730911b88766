"""Makes the golden files of torch/nn, torch/optim and spml/backbone from PyTorch and torchvision.

    python make.py            all of them, beside this file
    python make.py layers     one of: layers attention interpolate init mlp optim schedules clipping vision

Written with torch 2.11.0 and torchvision 0.26.0, one thread. float32 values are printed with nine digits, which name one
float32, float64 values in full; -1e300 stands for minus infinity.
"""
import json
import math
import os
import sys

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
import torch
import torch.nn as nn
import torchvision

torch.set_num_threads(1)
HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"float32": torch.float32, "float64": torch.float64}


def arr(t):
    return {"shape": list(t.shape), "data": [-1e300 if v == -math.inf else float("%.9g" % v) if t.dtype == torch.float32 else v for v in t.detach().double().flatten().tolist()]}


def save(name, d):
    d["about"] = {"made_by": "make.py", "torch": torch.__version__, "torchvision": torchvision.__version__, "cpu_capability": torch.backends.cpu.get_cpu_capability()}
    with open(os.path.join(HERE, name + ".json"), "w") as f:
        json.dump(d, f, separators=(",", ":"), allow_nan=False)
        f.write("\n")


class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


def mlp_small(**k):
    return nn.Sequential(nn.Linear(6, 5, **k), nn.ReLU(inplace=True), nn.Sequential(nn.Linear(5, 4, **k), nn.Dropout(0.4)), nn.Identity())


# name -> (constructor, input shape)
LAYERS = {
    "linear": (lambda **k: nn.Linear(5, 4, **k), (3, 5)),
    "linear_no_bias": (lambda **k: nn.Linear(5, 4, bias=False, **k), (2, 3, 5)),
    "conv2d": (lambda **k: nn.Conv2d(3, 4, 3, **k), (2, 3, 6, 5)),
    "conv2d_stride_padding": (lambda **k: nn.Conv2d(2, 3, 3, stride=2, padding=1, bias=False, **k), (2, 2, 7, 6)),
    "conv2d_groups_dilation": (lambda **k: nn.Conv2d(4, 6, 3, groups=2, dilation=2, padding=2, **k), (1, 4, 6, 6)),
    "conv2d_depthwise": (lambda **k: nn.Conv2d(4, 4, 3, groups=4, stride=2, padding=1, bias=False, **k), (2, 4, 6, 6)),
    "conv2d_rectangle": (lambda **k: nn.Conv2d(2, 3, (3, 1), stride=(1, 2), padding=(1, 0), **k), (2, 2, 5, 6)),
    "batchnorm2d": (lambda **k: nn.BatchNorm2d(3, **k), (4, 3, 3, 2)),
    "batchnorm2d_eps_momentum": (lambda **k: nn.BatchNorm2d(3, eps=1e-3, momentum=0.3, **k), (4, 3, 3, 2)),
    "batchnorm2d_no_affine": (lambda **k: nn.BatchNorm2d(3, affine=False, **k), (4, 3, 3, 2)),
    "layernorm": (lambda **k: nn.LayerNorm(5, **k), (3, 4, 5)),
    "layernorm_two_dims": (lambda **k: nn.LayerNorm((4, 5), eps=1e-3, **k), (3, 4, 5)),
    "layernorm_no_bias": (lambda **k: nn.LayerNorm(5, bias=False, **k), (3, 5)),
    "layernorm_no_affine": (lambda **k: nn.LayerNorm(5, elementwise_affine=False, **k), (3, 5)),
    "dropout": (lambda **k: nn.Dropout(0.3), (5, 8)),
    "dropout_all": (lambda **k: nn.Dropout(1.0), (2, 3)),
    "relu": (lambda **k: nn.ReLU(), (4, 5)),
    "relu6": (lambda **k: nn.ReLU6(), (4, 5)),
    "gelu": (lambda **k: nn.GELU(), (4, 5)),
    "gelu_tanh": (lambda **k: nn.GELU(approximate="tanh"), (4, 5)),
    "quick_gelu": (lambda **k: QuickGELU(), (4, 5)),
    "silu": (lambda **k: nn.SiLU(), (4, 5)),
    "max_pool2d": (lambda **k: nn.MaxPool2d(2), (1, 2, 5, 6)),
    "max_pool2d_stride_padding": (lambda **k: nn.MaxPool2d(3, stride=2, padding=1), (1, 2, 7, 6)),
    "max_pool2d_ceil_dilation": (lambda **k: nn.MaxPool2d(2, stride=2, dilation=2, ceil_mode=True), (1, 2, 6, 7)),
    "avg_pool2d": (lambda **k: nn.AvgPool2d(2), (1, 2, 5, 6)),
    "avg_pool2d_padding": (lambda **k: nn.AvgPool2d(3, stride=2, padding=1), (1, 2, 7, 6)),
    "avg_pool2d_padding_not_counted": (lambda **k: nn.AvgPool2d((3, 2), stride=2, padding=1, count_include_pad=False, ceil_mode=True), (1, 2, 7, 6)),
    "adaptive_avg_pool2d": (lambda **k: nn.AdaptiveAvgPool2d((1, 1)), (2, 3, 4, 5)),
    "adaptive_avg_pool2d_3x2": (lambda **k: nn.AdaptiveAvgPool2d((3, 2)), (2, 3, 7, 5)),
    "flatten": (lambda **k: nn.Flatten(), (2, 3, 4)),
    "embedding": (lambda **k: nn.Embedding(7, 4, **k), None),
    "sequential": (mlp_small, (3, 6)),
    "batchnorm1d": (lambda **k: nn.BatchNorm1d(4, **k), (5, 4)),
    "batchnorm1d_length": (lambda **k: nn.BatchNorm1d(3, eps=1e-3, momentum=0.3, **k), (4, 3, 3)),
    "batchnorm1d_no_affine": (lambda **k: nn.BatchNorm1d(4, affine=False, **k), (5, 4)),
    "groupnorm": (lambda **k: nn.GroupNorm(2, 4, **k), (2, 4, 3, 2)),
    "groupnorm_no_affine": (lambda **k: nn.GroupNorm(3, 3, eps=1e-3, affine=False, **k), (2, 3, 5)),
    "instancenorm2d": (lambda **k: nn.InstanceNorm2d(3, **k), (2, 3, 3, 2)),
    "instancenorm2d_affine": (lambda **k: nn.InstanceNorm2d(3, affine=True, eps=1e-3, **k), (2, 3, 3, 2)),
    "rmsnorm": (lambda **k: nn.RMSNorm(5, **k), (3, 4, 5)),
    "rmsnorm_eps": (lambda **k: nn.RMSNorm((4, 5), eps=1e-2, **k), (3, 4, 5)),
    "conv1d": (lambda **k: nn.Conv1d(2, 4, 3, stride=2, padding=1, groups=2, **k), (2, 2, 7)),
    "conv_transpose2d": (lambda **k: nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1, output_padding=1, groups=2, **k), (2, 2, 3, 4)),
    "leaky_relu": (lambda **k: nn.LeakyReLU(0.1), (4, 5)),
    "elu": (lambda **k: nn.ELU(0.7), (4, 5)),
    "prelu": (lambda **k: nn.PReLU(3, **k), (2, 3, 4)),
    "sigmoid": (lambda **k: nn.Sigmoid(), (4, 5)),
    "tanh": (lambda **k: nn.Tanh(), (4, 5)),
    "softmax": (lambda **k: nn.Softmax(dim=1), (2, 3, 4)),
    "softplus": (lambda **k: nn.Softplus(), (4, 5)),
    "mish": (lambda **k: nn.Mish(), (4, 5)),
    "hardswish": (lambda **k: nn.Hardswish(), (4, 5)),
    "hardsigmoid": (lambda **k: nn.Hardsigmoid(), (4, 5)),
    "dropout2d": (lambda **k: nn.Dropout2d(0.4), (4, 5, 2, 2)),
    "adaptive_max_pool2d": (lambda **k: nn.AdaptiveMaxPool2d((3, 2)), (2, 3, 7, 5)),
    "pixel_shuffle": (lambda **k: nn.PixelShuffle(2), (1, 8, 2, 3)),
    "upsample_nearest": (lambda **k: nn.Upsample(scale_factor=2.0), (1, 2, 3, 4)),
    "upsample_bilinear": (lambda **k: nn.Upsample(size=(5, 3), mode="bilinear", align_corners=True), (1, 2, 3, 4)),
}


def layers():
    cases = []
    for dname, dt in DTYPES.items():
        for i, (name, (make, shape)) in enumerate(LAYERS.items()):
            for training in (True, False):
                seed = 100 + i
                torch.manual_seed(seed)
                m = make(dtype=dt)
                initial = {k: arr(v) for k, v in m.state_dict().items()}
                g = torch.Generator().manual_seed(seed + 1000)
                with torch.no_grad():
                    for k, v in m.state_dict().items():
                        if v.dtype == torch.int64:
                            v.fill_(3)
                        else:
                            v.copy_(torch.randn(v.shape, generator=g, dtype=torch.float64).to(dt) * 0.5 + (1 if v.dim() == 1 and "weight" in k or "var" in k else 0))
                            if "var" in k:
                                v.abs_()
                state = {k: arr(v) for k, v in m.state_dict().items()}
                if shape is None:
                    x = torch.randint(0, 7, (3, 5), generator=g)
                else:
                    x = (torch.randn(shape, generator=g, dtype=torch.float64) * (4 if name == "relu6" else 1)).to(dt).requires_grad_()
                m.train(training)
                torch.manual_seed(seed + 2000)
                y = m(x)
                w = torch.randn(y.shape, generator=g, dtype=torch.float64).to(dt)
                (y * w).sum().backward()
                cases.append({
                    "layer": name, "dtype": dname, "training": training, "seed": seed, "initial": initial, "state": state, "input": arr(x), "forward_seed": seed + 2000,
                    "output": arr(y), "output_weight": arr(w), "input_grad": arr(x.grad) if x.requires_grad else None,
                    "grads": {k: arr(p.grad) for k, p in m.named_parameters()}, "state_after": {k: arr(v) for k, v in m.named_buffers()},
                })
    save("layers", {"cases": cases})


def randn(g, dt, *shape):
    return torch.randn(shape, generator=g, dtype=torch.float64).to(dt)


def fill(m, g):
    with torch.no_grad():
        for k, v in m.state_dict().items():
            v.copy_(torch.randn(v.shape, generator=g, dtype=torch.float64).to(v.dtype) * 0.3 + (1 if "norm" in k and "weight" in k else 0))


def attention():
    """MultiheadAttention and the transformer layers: initial values, outputs, attention weights, gradients of inputs and
    parameters, under masks of every kind. Evaluation mode runs with gradients on, so Python takes the same path in both."""
    cases = []
    E, H, N, L, S = 8, 2, 3, 4, 5

    def run(kind, make, inputs, call, dt, training, masks, about):
        seed = 500 + len(cases)
        torch.manual_seed(seed)
        m = make()
        initial = {k: arr(v) for k, v in m.state_dict().items()} if dt == torch.float32 else {}
        g = torch.Generator().manual_seed(seed + 1)
        fill(m, g)
        state = {k: arr(v) for k, v in m.state_dict().items()}
        xs = {k: randn(g, dt, *shape).requires_grad_() for k, shape in inputs.items()}
        ms = masks(g, dt)
        m.train(training)
        torch.manual_seed(seed + 2)
        y, w = call(m, xs, ms)
        c = randn(g, dt, *y.shape)
        loss = (y * c).sum()
        case = {"kind": kind, "dtype": str(dt)[6:], "training": training, "seed": seed, "options": about, "initial": initial, "keys": [k for k, _ in m.named_parameters()], "state": state,
                "inputs": {k: arr(v) for k, v in xs.items()}, "masks": {k: arr(v) for k, v in ms.items()}, "bool": [k for k, v in ms.items() if v.dtype == torch.bool],
                "forward_seed": seed + 2, "output": arr(y), "output_weight": arr(c)}
        if w is not None:
            cw = randn(g, dt, *w.shape)
            loss = loss + (w * cw).sum()
            case["weights"], case["weights_weight"] = arr(w), arr(cw)
        loss.backward()
        case["input_grads"] = {k: arr(v.grad) for k, v in xs.items()}
        case["grads"] = {k: arr(p.grad) for k, p in m.named_parameters()}
        cases.append(case)

    def none(g, dt):
        return {}

    def padding(g, dt):
        m = torch.zeros(N, S, dtype=torch.bool)
        m[0, 3:], m[2, 4:] = True, True
        return {"key_padding_mask": m}

    def both(g, dt):
        m = torch.zeros(L, S, dtype=torch.bool)
        m[0, 1], m[3, 0], m[2, 4] = True, True, True
        return {**padding(g, dt), "attn_mask": m}

    def floats(g, dt):
        return {"attn_mask": randn(g, dt, N * H, L, S), "key_padding_mask": randn(g, dt, N, S)}

    variants = [  # kwargs, Go's options, masks, need_weights, per head, inputs
        ({}, {}, none, False, False, "cross"), ({}, {}, none, True, False, "cross"), ({}, {}, padding, False, False, "cross"), ({}, {}, both, True, True, "cross"),
        ({}, {}, floats, False, False, "cross"), ({}, {}, floats, True, False, "cross"),
        ({"batch_first": True}, {}, both, False, False, "cross"), ({"batch_first": True}, {}, none, True, True, "self"), ({}, {}, none, False, False, "self"),
        ({"bias": False}, {}, none, False, False, "kv"), ({"batch_first": True}, {}, padding, True, False, "kv"),
        ({"kdim": 6, "vdim": 3}, {}, both, True, False, "cross"), ({"kdim": 6}, {}, none, False, False, "cross"),
        ({"add_bias_kv": True}, {}, both, True, False, "cross"), ({"add_zero_attn": True}, {}, both, False, False, "cross"),
        ({"add_bias_kv": True, "add_zero_attn": True, "batch_first": True}, {}, floats, True, True, "cross"),
        ({}, {}, none, True, False, "single"), ({"dropout": 0.3}, {}, none, True, False, "cross"),
        ({"batch_first": True}, {"causal": True}, none, False, False, "self"), ({}, {"causal": True}, none, True, False, "self"),
    ]
    for dt in (torch.float32, torch.float64):
        for kw, extra, masks, need, per_head, which in variants:
            for training in ((True, False) if kw.get("dropout") else (True,)):
                bf = kw.get("batch_first", False)
                shape = lambda n, width: (n, width) if which == "single" else (N, n, width) if bf else (n, N, width)
                inputs = {"query": shape(S if which == "self" else L, E)}
                if which != "self":
                    inputs["key"] = shape(S, kw.get("kdim", E))
                if which in ("cross", "single"):
                    inputs["value"] = shape(S, kw.get("vdim", E))

                def call(m, xs, ms):
                    q = xs["query"]
                    k = xs.get("key", q)
                    v = xs.get("value", k)
                    more = dict(ms)
                    if extra.get("causal"):
                        more["attn_mask"] = torch.triu(torch.ones(S, S, dtype=torch.bool), 1)
                    return m(q, k, v, need_weights=need, average_attn_weights=not per_head, **more)

                run("attention", lambda: nn.MultiheadAttention(E, H, dtype=dt, **kw), inputs, call, dt, training, masks, {**kw, **extra, "need": need, "per_head": per_head})

    def square(g, dt):
        pad = torch.zeros(N, S, dtype=torch.bool)
        pad[1, 3:] = True
        return {"mask": nn.Transformer.generate_square_subsequent_mask(S).to(dt), "padding": pad}

    def memory(g, dt):
        pad = torch.zeros(N, S, dtype=torch.bool)
        pad[1, 3:] = True
        return {"mask": nn.Transformer.generate_square_subsequent_mask(L).to(dt), "memory_padding": pad, "memory_mask": randn(g, dt, L, S)}

    def float_padding(ms):  # Python wants both masks of one kind
        return {k: torch.zeros(v.shape, dtype=torch.float64).masked_fill(v, float("-inf")) if v.dtype == torch.bool else v for k, v in ms.items()}

    layers = [({}, {}), ({"batch_first": True, "norm_first": True, "activation": "gelu"}, {}), ({"bias": False, "layer_norm_eps": 1e-3}, {}), ({"dropout": 0.2, "batch_first": True}, {})]
    for dt in (torch.float32, torch.float64):
        for kw, extra in layers:
            kw = {"dropout": 0.0, **kw}
            bf = kw.get("batch_first", False)
            shape = lambda n: (N, n, E) if bf else (n, N, E)
            enc = lambda: nn.TransformerEncoderLayer(E, H, dim_feedforward=6, dtype=dt, **kw)
            dec = lambda: nn.TransformerDecoderLayer(E, H, dim_feedforward=6, dtype=dt, **kw)
            masks = none if kw["dropout"] else square  # the fused attention drops in an order of its own
            plain = lambda ms, dt=dt: {k: v.to(dt) for k, v in float_padding(ms).items()}

            def call_enc(m, xs, ms):
                ms = plain(ms)
                return m(xs["x"], ms.get("mask"), ms.get("padding")), None

            def call_stack(m, xs, ms):
                ms = plain(ms)
                return m(xs["x"], mask=ms.get("mask"), src_key_padding_mask=ms.get("padding")), None

            def call_dec(m, xs, ms):
                ms = plain(ms)
                return m(xs["x"], xs["memory"], ms.get("mask"), ms.get("memory_mask"), None, ms.get("memory_padding")), None

            run("encoder_layer", enc, {"x": shape(S)}, call_enc, dt, True, masks, kw)
            run("decoder_layer", dec, {"x": shape(L), "memory": shape(S)}, call_dec, dt, True, none if kw["dropout"] else memory, kw)
            if not kw["dropout"] and dt == torch.float32:
                run("encoder", lambda: nn.TransformerEncoder(enc(), 2, nn.LayerNorm(E, dtype=dt), enable_nested_tensor=False), {"x": shape(S)}, call_stack, dt, True, masks, kw)
                run("decoder", lambda: nn.TransformerDecoder(dec(), 2, None), {"x": shape(L), "memory": shape(S)}, call_dec, dt, False, memory, kw)
    save("attention", {"cases": cases})


def interpolate():
    """torch.nn.functional.interpolate over modes, sizes and factors."""
    F = nn.functional
    cases = []
    g = torch.Generator().manual_seed(3)
    for shape, modes in (((2, 2, 5), ("nearest", "nearest-exact", "linear", "area")), ((1, 2, 5, 4), ("nearest", "nearest-exact", "bilinear", "bicubic", "area")), ((1, 1, 3, 4, 2), ("nearest", "nearest-exact", "trilinear", "area"))):
        x = torch.randn(shape, generator=g, dtype=torch.float64)
        n = len(shape) - 2
        for mode in modes:
            smooth = mode.endswith(("linear", "cubic"))
            for size, factor in (([7, 3, 5][:n], None), ([2, 6, 3][:n], None), (None, [1.5, 0.6, 2.3][:n]), (None, [2.0])):
                for corners in ((False, True) if smooth else (False,)):
                    for aa in ((False, True) if mode in ("bilinear", "bicubic") else (False,)):
                        xs = x.clone().requires_grad_()
                        f = None if factor is None else factor[0] if len(factor) == 1 else tuple(factor)
                        y = F.interpolate(xs, size=size, scale_factor=f, mode=mode, align_corners=corners if smooth else None, antialias=aa)
                        w = torch.randn(y.shape, generator=g, dtype=torch.float64)
                        (y * w).sum().backward()
                        cases.append({"mode": mode, "size": size, "scale_factor": factor, "align_corners": corners, "antialias": aa, "input": arr(x), "output": arr(y), "output_weight": arr(w), "input_grad": arr(xs.grad)})
    save("interpolate", {"cases": cases})


def init():
    i = nn.init
    funcs = {
        "uniform": lambda t: i.uniform_(t, -0.3, 0.7), "normal": lambda t: i.normal_(t, 0.5, 2.0), "constant": lambda t: i.constant_(t, 0.25), "zeros": i.zeros_, "ones": i.ones_,
        "kaiming_uniform_sqrt5": lambda t: i.kaiming_uniform_(t, a=math.sqrt(5)), "kaiming_uniform_fan_out_relu": lambda t: i.kaiming_uniform_(t, mode="fan_out", nonlinearity="relu"),
        "kaiming_normal_fan_out_relu": lambda t: i.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"), "kaiming_normal": i.kaiming_normal_,
        "xavier_uniform": i.xavier_uniform_, "xavier_uniform_gain_tanh": lambda t: i.xavier_uniform_(t, i.calculate_gain("tanh")), "xavier_normal": i.xavier_normal_,
        "trunc_normal": lambda t: i.trunc_normal_(t, std=0.02), "trunc_normal_tight": lambda t: i.trunc_normal_(t, mean=0.1, std=1.5, a=-1.0, b=0.5),
    }
    cases = []
    for dname, dt in DTYPES.items():
        for name, f in funcs.items():
            for shape in ((4, 6), (3, 2, 3, 2)):
                t = torch.empty(shape, dtype=dt)
                torch.manual_seed(7)
                f(t)
                cases.append({"function": name, "dtype": dname, "value": arr(t)})
                if name == "normal":
                    g = torch.Generator().manual_seed(11)
                    i.normal_(t, 0.5, 2.0, generator=g)
                    cases.append({"function": "normal_generator_11", "dtype": dname, "value": arr(t)})
    save("init", {"seed": 7, "cases": cases})


def mlp():
    """Fifty steps of 784-128-128-10 on one random batch: the losses of each step, sums over the parameters after them."""
    kinds = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.01),
        "sgd_fused": lambda p: torch.optim.SGD(p, lr=0.01, fused=True),
        "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
        "sgd_momentum_fused": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, fused=True),
        "adam": lambda p: torch.optim.Adam(p, lr=1e-3),
        "adam_fused": lambda p: torch.optim.Adam(p, lr=1e-3, fused=True),
        "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
        "adamw_fused": lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True),
    }
    runs = {}
    for kind, make in kinds.items():
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
        x, t = torch.randn(64, 784), torch.randint(0, 10, (64,))
        opt, loss_fn, losses = make(m.parameters()), nn.CrossEntropyLoss(), []
        for _ in range(50):
            opt.zero_grad()
            loss = loss_fn(m(x), t)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        runs[kind] = {"losses": losses, "parameters": {k: {"sum": p.double().sum().item(), "sumsq": p.double().square().sum().item()} for k, p in m.named_parameters()}}
    save("mlp", {"seed": 0, "runs": runs})


OPTIMS = {
    "sgd": ("SGD", dict(lr=0.1)),
    "sgd_momentum": ("SGD", dict(lr=0.05, momentum=0.9)),
    "sgd_dampening": ("SGD", dict(lr=0.05, momentum=0.8, dampening=0.3, weight_decay=0.01)),
    "sgd_nesterov": ("SGD", dict(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)),
    "sgd_maximize": ("SGD", dict(lr=0.0002, momentum=0.5, maximize=True)),
    "adam": ("Adam", dict(lr=0.01)),
    "adam_weight_decay": ("Adam", dict(lr=0.01, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-6)),
    "adam_amsgrad": ("Adam", dict(lr=0.02, amsgrad=True)),
    "adam_maximize": ("Adam", dict(lr=0.01, maximize=True)),
    "adamw": ("AdamW", dict(lr=0.01)),
    "adamw_amsgrad": ("AdamW", dict(lr=0.02, amsgrad=True, weight_decay=0.2)),
    "adamw_maximize": ("AdamW", dict(lr=0.002, maximize=True, betas=(0.7, 0.9))),
    "rmsprop": ("RMSprop", dict(lr=0.005)),
    "rmsprop_centered": ("RMSprop", dict(lr=0.005, alpha=0.9, eps=1e-6, centered=True, momentum=0.8, weight_decay=0.05)),
    "rmsprop_maximize": ("RMSprop", dict(lr=0.0005, momentum=0.5, maximize=True)),
    "adamax": ("Adamax", dict(lr=0.01)),
    "adamax_weight_decay": ("Adamax", dict(lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    "adagrad": ("Adagrad", dict(lr=0.05)),
    "adagrad_decay": ("Adagrad", dict(lr=0.05, lr_decay=0.1, weight_decay=0.05, initial_accumulator_value=0.2, eps=1e-8)),
    "adagrad_maximize": ("Adagrad", dict(lr=0.005, maximize=True)),
}


def optim():
    """A small regression: y = tanh(x·w1ᵀ + b1)·w2ᵀ, a second group (w2, five times the learning rate, no decay), and a
    parameter s that takes part from step `late` on only, so that its state starts later (PyTorch's fused SGD cannot do that
    with momentum). Parameters after some steps."""
    cases = []
    for dname, dt in DTYPES.items():
        g = torch.Generator().manual_seed(5)
        start = {k: torch.randn(s, generator=g, dtype=torch.float64).to(dt) for k, s in {"w1": (5, 4), "b1": (5,), "w2": (3, 5), "s": (3,)}.items()}
        x, y = torch.randn((8, 4), generator=g, dtype=torch.float64).to(dt), torch.randn((8, 3), generator=g, dtype=torch.float64).to(dt)
        for name, (cls, kw) in OPTIMS.items():
            for mode in ("fused", "foreach") if cls in ("SGD", "Adam", "AdamW") else ("foreach",):
                p = {k: v.clone().requires_grad_() for k, v in start.items()}
                rest = {"lr": kw["lr"] * 5, "weight_decay": 0.0}
                opt = getattr(torch.optim, cls)([{"params": [p["w1"], p["b1"], p["s"]]}, {"params": [p["w2"]], **rest}], **kw, **({"fused": True} if mode == "fused" else {"foreach": True}))
                after, losses, late = {}, [], 1 if mode == "fused" and kw.get("momentum") else 10
                for step in range(1, 51):
                    opt.zero_grad()
                    out = torch.tanh(x @ p["w1"].T + p["b1"]) @ p["w2"].T
                    if step >= late:
                        out = out * p["s"]
                    loss = (out - y).square().mean()
                    loss.backward()
                    opt.step()
                    losses.append(loss.item())
                    if step in (1, 2, 10, 11, 50):
                        after[str(step)] = {k: arr(v) for k, v in p.items()}
                state = {str(i): {k: arr(torch.as_tensor(v)) for k, v in s.items() if isinstance(v, torch.Tensor)} for i, s in opt.state_dict()["state"].items()}
                cases.append({"name": name, "class": cls, "options": kw, "mode": mode, "late": late, "dtype": dname, "losses": losses, "after": after, "state": state})
        cases[-1]["start"], cases[-1]["x"], cases[-1]["y"] = {k: arr(v) for k, v in start.items()}, arr(x), arr(y)
    save("optim", {"cases": cases})


def schedules():
    """Learning rates (and momentum) of two groups over the steps of every schedule."""
    L = torch.optim.lr_scheduler
    seq = lambda o, parts, at: L.SequentialLR(o, [f(o) for f in parts], at)
    kinds = {
        "lambda": lambda o: L.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)]),
        "multiplicative": lambda o: L.MultiplicativeLR(o, lambda e: 1 - 0.01 * e),
        "step": lambda o: L.StepLR(o, 7, 0.3), "multistep": lambda o: L.MultiStepLR(o, [3, 10, 10, 21], 0.5), "constant": lambda o: L.ConstantLR(o, 0.25, 6),
        "linear": lambda o: L.LinearLR(o, 1 / 3, 1.0, 8), "linear_down": lambda o: L.LinearLR(o, 0.9, 0.1, 15), "exponential": lambda o: L.ExponentialLR(o, 0.93),
        "polynomial": lambda o: L.PolynomialLR(o, 25, 1.7), "cosine": lambda o: L.CosineAnnealingLR(o, 12, 0.003), "cosine_long": lambda o: L.CosineAnnealingLR(o, 40),
        "restarts": lambda o: L.CosineAnnealingWarmRestarts(o, 5, 2, 0.001), "restarts_even": lambda o: L.CosineAnnealingWarmRestarts(o, 6),
        "onecycle": lambda o: L.OneCycleLR(o, [0.1, 0.3], total_steps=40), "onecycle_linear": lambda o: L.OneCycleLR(o, 0.2, total_steps=40, pct_start=0.4, anneal_strategy="linear", three_phase=True, div_factor=10.0, final_div_factor=50.0, base_momentum=0.8, max_momentum=0.9),
        "onecycle_plain": lambda o: L.OneCycleLR(o, 0.2, total_steps=45, cycle_momentum=False, pct_start=0.1),
        "warmup_cosine": lambda o: seq(o, [lambda o: L.LinearLR(o, 0.01, 1.0, 5), lambda o: L.CosineAnnealingLR(o, 30)], [5]),
        "sequence": lambda o: seq(o, [lambda o: L.ConstantLR(o, 0.1, 4), lambda o: L.StepLR(o, 5, 0.5), lambda o: L.ExponentialLR(o, 0.9), lambda o: L.CosineAnnealingWarmRestarts(o, 4), lambda o: L.MultiStepLR(o, [2, 3], 0.2)], [4, 16, 22, 33]),
        "chained": lambda o: L.ChainedScheduler([L.LinearLR(o, 0.2, 1.0, 6), L.ExponentialLR(o, 0.95)]),
    }
    cases = []
    for opt in ("SGD", "Adam"):
        for name, make in kinds.items():
            p, q = torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(1))
            kw = dict(momentum=0.9) if opt == "SGD" else dict(betas=(0.8, 0.99))
            o = getattr(torch.optim, opt)([{"params": [p], "lr": 0.1}, {"params": [q], "lr": 0.4}], lr=0.1, **kw)
            sch = make(o)
            lrs, ms, last = [], [], []
            for _ in range(40):
                lrs.append([g["lr"] for g in o.param_groups])
                ms.append([g["momentum"] if opt == "SGD" else g["betas"][0] for g in o.param_groups])
                last.append(list(sch.get_last_lr()))
                o.step()
                sch.step()
            cases.append({"name": name, "optimizer": opt, "lr": lrs, "momentum": ms, "last_lr": last})
    g = torch.Generator().manual_seed(9)
    plateau = []
    for kw in (dict(patience=2), dict(mode="max", factor=0.3, patience=1, cooldown=2, min_lr=0.004), dict(threshold_mode="abs", threshold=0.05, patience=0, factor=0.5), dict(mode="max", threshold_mode="abs", threshold=0.02, patience=3, eps=0.01)):
        metrics = (torch.rand(60, generator=g, dtype=torch.float64) * 0.3 + torch.linspace(1, 0.2, 60, dtype=torch.float64) ** 2).tolist()
        p = torch.nn.Parameter(torch.zeros(1))
        o = torch.optim.SGD([{"params": [p], "lr": 0.1}, {"params": [torch.nn.Parameter(torch.zeros(1))], "lr": 0.4}])
        sch = L.ReduceLROnPlateau(o, **kw)
        lrs = []
        for m in metrics:
            o.step()
            sch.step(m)
            lrs.append([g["lr"] for g in o.param_groups])
        plateau.append({"options": kw, "metrics": metrics, "lr": lrs})
    save("schedules", {"cases": cases, "plateau": plateau})


def clipping():
    """clip_grad_norm_ and clip_grad_value_, and averaged models."""
    cases = []
    for dname, dt in DTYPES.items():
        g = torch.Generator().manual_seed(4)
        grads = [torch.randn(s, generator=g, dtype=torch.float64).to(dt) for s in ((3, 4), (5,), ())]
        for norm, limit in ((2.0, 1.0), (2.0, 100.0), (1.0, 2.5), (math.inf, 0.5), (3.0, 0.7)):
            ps = [torch.nn.Parameter(torch.zeros_like(v)) for v in grads]
            for p, v in zip(ps, grads):
                p.grad = v.clone()
            total = nn.utils.clip_grad_norm_(ps + [torch.nn.Parameter(torch.zeros(2, dtype=dt))], limit, norm)
            cases.append({"dtype": dname, "kind": "norm", "norm": -1 if norm == math.inf else norm, "limit": limit, "total": total.item(), "before": [arr(v) for v in grads], "after": [arr(p.grad) for p in ps]})
        ps = [torch.nn.Parameter(torch.zeros_like(v)) for v in grads]
        for p, v in zip(ps, grads):
            p.grad = v.clone()
        nn.utils.clip_grad_value_(ps, 0.4)
        cases.append({"dtype": dname, "kind": "value", "norm": 2, "limit": 0.4, "total": 0, "before": [arr(v) for v in grads], "after": [arr(p.grad) for p in ps]})
    averages = []
    from torch.optim import swa_utils
    for kind in ("swa", "ema"):
        for buffers in (False, True):
            torch.manual_seed(1)
            m = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()
            start = {k: arr(v) for k, v in m.state_dict().items()}
            a = swa_utils.AveragedModel(m, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9) if kind == "ema" else None, use_buffers=buffers)
            g, after = torch.Generator().manual_seed(2), []
            for _ in range(4):
                with torch.no_grad():
                    for v in m.state_dict().values():
                        v.add_(torch.randn(v.shape, generator=g, dtype=torch.float64)) if v.is_floating_point() else v.add_(7)
                a.update_parameters(m)
                after.append({"model": {k: arr(v) for k, v in m.state_dict().items()}, "average": {k: arr(v) for k, v in a.state_dict().items()}})
            averages.append({"kind": kind, "buffers": buffers, "start": start, "keys": list(a.state_dict()), "after": after})
    save("clipping", {"cases": cases, "averages": averages})


def det(name, shape, offset, scale):
    import zlib
    n = math.prod(shape)
    i = torch.arange(n, dtype=torch.int64)
    h = (i * 2654435761 + zlib.crc32(name.encode())) & 0xFFFFFFFF
    h ^= h >> 15
    h = (h * 2246822519) & 0xFFFFFFFF
    h ^= h >> 13
    return (offset + scale * ((h >> 8).double() / 2**24 - 0.5)).reshape(shape)


def summary(t, n=8):
    t = t.detach().double()
    return {"shape": list(t.shape), "sum": t.sum().item(), "sumsq": t.square().sum().item(), "abs_max": t.abs().max().item(), "first": t.flatten()[:n].tolist()}


def vision():
    """torchvision's initial weights under torch.manual_seed(0), and train steps that the given goldens lack: batch
    normalisation in training mode and in evaluation mode, from the deterministic fill, in float64."""
    from torchvision import models as tv
    out = {"initial": {}, "train": {}, "keys": {}}
    for name in ("resnet18", "resnet34", "resnet50", "mobilenet_v2"):
        torch.manual_seed(0)
        m = getattr(tv, name)(num_classes=7)
        sd = m.state_dict()
        pick = [k for k in sd if k in ("conv1.weight", "features.0.0.weight", "layer4.1.conv2.weight", "layer4.0.downsample.0.weight", "features.17.conv.2.weight", "features.18.0.weight") or k.startswith(("fc.", "classifier."))]
        out["initial"][name] = {
            "tensors": {k: summary(sd[k]) for k in pick}, "next_draw": torch.rand(3).tolist(),
            "sum": sum(v.double().sum().item() for v in sd.values()), "sumsq": sum(v.double().square().sum().item() for v in sd.values()),
            "parameters": sum(p.numel() for p in m.parameters()),
        }
        out["keys"][name] = [k for k, _ in m.named_parameters()][:12]
    for name, modes in (("resnet34", ["train"]), ("resnet50", ["train", "frozen"]), ("resnet101", ["frozen"]), ("mobilenet_v2", ["train", "frozen"])):
        for bn in modes:
            m = getattr(tv, name)(num_classes=5).double()
            with torch.no_grad():
                for k, v in m.state_dict().items():
                    if v.dtype == torch.int64:
                        continue
                    gain = k.endswith("running_var") or v.dim() == 1 and k.endswith(".weight")
                    scale = math.sqrt(24 / math.prod(v.shape[1:])) if v.dim() > 1 else 1.0 if gain else 0.5
                    # residual branches are damped so that fifty blocks do not overflow what float32 can follow
                    if gain and k.endswith(("bn3.weight", "bn2.weight")) and name.startswith("resnet"):
                        v.copy_((det(k, v.shape, 0.5, 0.5)).float().double())
                        continue
                    v.copy_(det(k, v.shape, 1.0 if gain else 0.0, scale).float().double())
            x = det("input:torchvision/" + name, [4, 3, 64, 64], 0.0, 4.0).float().double()
            m.train()
            for l in m.modules():
                if bn == "frozen" and isinstance(l, nn.BatchNorm2d):
                    l.eval()
                if isinstance(l, nn.Dropout):
                    l.p = 0.0
            y = m(x)
            g = det("input:torchvision/" + name + ":grad", list(y.shape), 0.0, 2.0).float().double()
            loss = (y * g).mean()
            loss.backward()
            groups = {}
            for k, p in m.named_parameters():
                groups.setdefault(".".join(k.split(".")[: 2 if k.startswith("features") else 1]), []).append(p.grad.square().sum())
            stats = {k: {"sum": v.double().sum().item(), "sumsq": v.double().square().sum().item()} for k, v in m.named_buffers() if k.split(".")[0] in ("bn1", "layer4") or k.startswith("features.18")}
            out["train"][name + "/" + bn] = {
                "logits": summary(y, 20), "loss": loss.item(), "gradient_norm_per_group": {k: math.sqrt(sum(v.item() for v in vs)) for k, vs in groups.items()},
                "running_statistics": stats,
            }
    save("vision", out)


if __name__ == "__main__":
    todo = sys.argv[1:] or ["layers", "attention", "interpolate", "init", "mlp", "optim", "schedules", "clipping", "vision"]
    for t in todo:
        globals()[t]()
