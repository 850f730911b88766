"""Writes ops.json: what PyTorch computes for every operator of torch/internal/opgen/ops.txt.

    python testdata/torch/make_ops.py        (PyTorch 2.11.0, CPU)

One case a line: {"op", "args", "out", "after", "grad", ...}. args are the operator's arguments in schema order as far as
they are given; out its results without those that alias a written argument; after the written arguments afterwards
(position -> value); grad the gradients of sum(weight * result) for each argument, where weight(k) = (7k mod 11 - 4) / 8
runs through all differentiable results in order. Tensors are {"d": dtype, "s": shape, "v": values} with "n": 1 for
ones that are not contiguous, lists of tensors {"ts": [...]}, dtypes {"dtype": ...}, devices {"device": ...}, memory formats
{"mem": ...}, and {"def": value} a default that stands before a given argument.
"""
import json
import math
import os
import sys

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "..", "..", "torch", "internal", "opgen", "ops.txt")

f64, f32, f16, bf16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
i64, i32, u8, b8 = torch.int64, torch.int32, torch.uint8, torch.bool
CODES = {f64: "f64", f32: "f32", f16: "f16", bf16: "bf16", i64: "i64", i32: "i32", torch.int16: "i16", torch.int8: "i8", u8: "u8", b8: "b"}
nan, inf = float("nan"), float("inf")

cases = []
covered = set()  # lines of the table


def read_table():
    """op -> lines: (Go name, names of the schema's arguments that Go shows)."""
    ops = {}
    for line in open(TABLE):
        if line.startswith("#") or "|" not in line:
            continue
        schema, spec, _ = [p.strip() for p in line.split(" | ", 2)]
        shown = {p.strip().removesuffix("...") for p in spec[spec.index("(") + 1 : -1].split(",")} - {""}
        if not spec.startswith("func "):
            shown.add("self")
        ops.setdefault(schema.split("(")[0], []).append((spec.split("(")[0], shown))
    return ops


table = read_table()


# Inputs: distinct odd multiples of 1/32, so that no element lies on a kink, and nothing is equal by accident.
def T(*shape, dtype=f64, kind="any", seed=0, nc=False):
    n = math.prod(shape)
    k = np.random.RandomState(1000 + 17 * seed + n).permutation(max(n, 96))[:n]
    x = (2 * (k - max(n, 96) // 2) + 1) / 32  # |x| < 3 for up to 96 elements
    if kind == "pos":  # (0.25, 3.5)
        x = np.abs(x) + 0.25
    elif kind == "unit":  # (0, 1)
        x = (x + 3.0625) / 6.25
    elif kind == "small":  # (-1, 1)
        x = x / 3.1
    elif kind == "wide":
        x = x * 3
    if not dtype.is_floating_point:
        x = np.floor(x * 3) if dtype not in (u8, b8) else (np.floor(np.abs(x) * 3) if dtype == u8 else x > 0)
    return layout(torch.tensor(np.asarray(x), dtype=dtype).reshape(shape), nc)


def V(values, dtype=f64, nc=False):
    return layout(torch.tensor(values, dtype=dtype), nc)


def layout(x, nc):
    """With nc the elements lie two apart in reversed dimensions, as torchtest.Array makes them."""
    if not nc:
        return x
    block = torch.zeros(*reversed(x.shape), 2, dtype=x.dtype)
    return block.select(-1, 0).permute(*reversed(range(x.dim()))).copy_(x)


def number(v):
    if math.isnan(v):
        return "nan"
    if math.isinf(v):
        return "inf" if v > 0 else "-inf"
    return v


def array(x):
    x = x.detach()
    if x.dtype == f32:
        v = [number(float(str(w))) for w in x.reshape(-1).numpy()]
    elif x.dtype.is_floating_point:
        v = [number(w) for w in x.to(f64).reshape(-1).tolist()]
    else:
        v = [int(w) for w in x.reshape(-1).tolist()]
    out = {"d": CODES[x.dtype], "s": list(x.shape), "v": v}
    if not x.is_contiguous():
        out["n"] = 1
    return out


def value(v, tensors=False):
    if isinstance(v, torch.Tensor):
        return array(v)
    if isinstance(v, torch.dtype):
        return {"dtype": CODES[v]}
    if isinstance(v, torch.device):
        return {"device": v.type}
    if isinstance(v, torch.memory_format):
        return {"mem": {torch.contiguous_format: 0, torch.preserve_format: 1, torch.channels_last: 2}[v]}
    if isinstance(v, (list, tuple)):
        if tensors or is_list(v):
            return {"ts": [None if w is None else array(w) for w in v]}
        return list(v)
    if isinstance(v, float):
        return number(v)
    return v


def result(v):
    """A result of its own layout is compared by value; its strides are not written."""
    v = value(v, isinstance(v, list))
    for a in v["ts"] if isinstance(v, dict) and "ts" in v else [v]:
        if isinstance(a, dict):
            a.pop("n", None)
    return v


def is_list(v):
    return isinstance(v, (list, tuple)) and any(isinstance(w, torch.Tensor) for w in v)


def weights(outs):
    k, ws = 0, []
    for o in outs:
        n = o.numel()
        ws.append((((torch.arange(k, k + n) * 7) % 11 - 4) / 8).to(o.dtype).reshape(o.shape))
        k += n
    return ws


def C(op, *args, grad=None, seed=None, cmp=None, check=True, tol=None, nograd=(), through=None, **kw):
    """Adds a case. grad: False = none, else wherever a result requires grad. cmp: "shape" compares shape and dtype only,
    "abs" absolute values. check=False: no comparison with differences. tol: relative tolerance. nograd: argument positions.
    through: the one differentiable result whose gradient is taken."""
    op = "aten::" + op
    name, _, overload = op.removeprefix("aten::").partition(".")
    fn = getattr(getattr(torch.ops.aten, name), overload or "default")
    params = fn._schema.arguments
    given = dict(enumerate(args))
    for k, p in enumerate(params):
        if p.name in kw:
            given[k] = kw.pop(p.name)
    assert not kw, (op, kw)
    explicit = set(given)
    for k in range(max(given) + 1):
        if k not in given:
            given[k] = params[k].default_value
    for k, v in given.items():
        if str(params[k].type) in ("float", "Optional[float]") and v is not None:
            given[k] = float(v)
    args = [given[k] for k in range(len(given))]
    tensors = lambda k: "List[" in str(params[k].type) and "Tensor" in str(params[k].type)
    wrote = [k for k, p in enumerate(params) if p.alias_info is not None and p.alias_info.is_write and k < len(args)]

    case = {"op": op, "args": [value(v, tensors(k)) if k in explicit else {"def": value(v)} for k, v in enumerate(args)]}

    # Leaves of their own, clones of them where the operator writes.
    def leaf(k, v):
        if not isinstance(v, torch.Tensor) or not v.is_floating_point() or k in nograd:
            return v
        return v.detach().requires_grad_()

    want = grad is not False
    leaves = [([leaf(k, w) for w in v] if is_list(v) else leaf(k, v)) if want else v for k, v in enumerate(args)]
    passed = list(leaves)
    for k in wrote:
        passed[k] = [w.clone() for w in passed[k]] if isinstance(passed[k], list) else passed[k].clone()
    if seed is not None:
        torch.manual_seed(seed)
        case["seed"] = seed
    positional = [v for k, v in enumerate(passed) if not params[k].kwarg_only]
    named = {params[k].name: v for k, v in enumerate(passed) if params[k].kwarg_only}
    try:
        got = fn(*positional, **named)
    except RuntimeError as e:
        if want and grad is None and "requires grad" in str(e):
            return C(op.removeprefix("aten::"), *args, grad=False, seed=seed, cmp=cmp, check=check, tol=tol, nograd=nograd, through=through)
        raise
    returns = fn._schema.returns
    got = [] if not returns else [got] if len(returns) == 1 else list(got)
    fresh = [v for v, r in zip(got, returns) if not (r.alias_info is not None and r.alias_info.is_write)]
    if cmp == "shape":
        fresh = [torch.zeros_like(v) for v in fresh]  # the values are whatever lay in memory
    case["out"] = [result(v) for v in fresh]
    if wrote:
        case["after"] = {str(k): result(passed[k]) for k in wrote}
    outs = fresh + [passed[k] for k in wrote]
    outs = [w for v in outs for w in (v if isinstance(v, (list, tuple)) else [v])]
    outs = [w for w in outs if isinstance(w, torch.Tensor) and w.requires_grad]
    flat = [w for v in leaves for w in (v if is_list(v) else [v]) if isinstance(w, torch.Tensor) and w.requires_grad]
    if want and outs and flat:
        if through is not None:
            outs, case["through"] = [outs[through]], through
        gs = iter(torch.autograd.grad(outs, flat, weights(outs), allow_unused=True))

        def grad_of(v):
            if is_list(v):
                return {"ts": [grad_of(w) for w in v]}
            if not isinstance(v, torch.Tensor) or not v.requires_grad:
                return None
            g = next(gs)
            return None if g is None else result(g)

        case["grad"] = [grad_of(v) for v in leaves]
        if not check:
            case["nocheck"] = 1
    elif grad is True:
        raise AssertionError(op + ": no result requires grad")
    if cmp:
        case["cmp"] = cmp
    if tol:
        case["tol"] = tol
    for line, shown in table.get(op, []):
        if {params[k].name for k in explicit} <= shown <= {p.name for p in params[: len(args)]}:
            covered.add(line)
    cases.append(case)


def main():
    import cases_layers
    import cases_more
    import cases_pointwise
    import cases_tensor

    for m in (cases_pointwise, cases_tensor, cases_layers, cases_more):
        m.add()
    missing = sorted({line for lines in table.values() for line, _ in lines} - covered)
    if missing:
        sys.exit("no case for " + ", ".join(missing))
    path = os.path.join(HERE, "ops.json")
    with open(path, "w") as f:
        f.write('{"about":"made by make_ops.py","torch":"%s","cases":[\n' % torch.__version__)
        f.write(",\n".join(json.dumps(c, separators=(",", ":"), allow_nan=False) for c in cases))
        f.write("\n]}\n")
    print(len(cases), "cases of", len(covered), "lines of the table,", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    sys.modules["make_ops"] = sys.modules["__main__"]
    sys.path.insert(0, HERE)
    torch.set_num_threads(1)
    main()
