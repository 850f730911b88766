"""Writes index.json: what Python's indexing of tensors gives. Run: python make_index.py

Each case indexes torch.arange(product).reshape(shape). An index is a list of {"int": i}, {"range": [start, end, step]}
(null = absent), {"new": 1}, {"dots": 1}, {"bool": b}, {"pos": values, "shape": s, "dtype": d}, {"mask": values, "shape": s}.
"shape" and "values" of the result are PyTorch's; where NumPy means the same by the index, they were compared. Cases with
"set" assign a value (a number, or {"values", "shape"}) and hold the whole tensor afterwards; those with "error" fail."""
import json
import pathlib

import numpy as np
import torch

cases = []


def decode(i, lib):
    if "int" in i:
        return i["int"]
    if "range" in i:
        return slice(*i["range"])
    if "new" in i:
        return None
    if "dots" in i:
        return Ellipsis
    if "bool" in i:
        return i["bool"]
    if "pos" in i:
        return torch.tensor(i["pos"], dtype=getattr(torch, i.get("dtype", "int64"))).reshape(i["shape"])
    return torch.tensor(i["mask"], dtype=torch.bool).reshape(i["shape"])


def base(shape):
    return torch.arange(int(np.prod(shape))).reshape(shape)


def case(shape, *index, value=None, numpy=True):
    c = {"base": list(shape), "index": list(index)}
    x = base(shape)
    idx = tuple(decode(i, torch) for i in index)
    nidx = tuple(i.numpy() if isinstance(i, torch.Tensor) else i for i in idx)
    n = x.numpy().copy()
    try:
        if value is None:
            got = x[idx]
            if numpy:
                assert np.array_equal(got.numpy(), n[nidx]) and got.shape == n[nidx].shape, c
            c["values"], c["shape"] = got.flatten().tolist(), list(got.shape)
        else:
            v = torch.tensor(value["values"]).reshape(value["shape"]) if isinstance(value, dict) else value
            x[idx] = v
            if numpy:
                n[nidx] = v.numpy() if isinstance(v, torch.Tensor) else v
                assert np.array_equal(x.numpy(), n), c
            c["set"], c["values"], c["shape"] = value, x.flatten().tolist(), list(x.shape)
    except (IndexError, ValueError, TypeError, RuntimeError) as e:
        c["error"] = type(e).__name__
        if value is not None:
            c["set"] = value
    cases.append(c)


def i(v): return {"int": v}
def r(a, b, s=None): return {"range": [a, b, s]}
def pos(v, *shape, dtype="int64"): return {"pos": v, "shape": list(shape) or [len(v)], "dtype": dtype}
def mask(v, *shape): return {"mask": v, "shape": list(shape) or [len(v)]}
def b(v): return {"bool": v}


new, dots, full = {"new": 1}, {"dots": 1}, r(None, None)
m34 = mask([k % 5 == 1 for k in range(12)], 3, 4)
m3 = mask([True, False, True])

for idx in [
    [], [i(0)], [i(-1)], [i(2)], [i(0), i(1)], [i(0), i(-1), i(3)], [full], [full, i(2)], [full, full, i(-5)],
    [r(1, None)], [r(None, 2)], [r(1, 2)], [r(-2, None)], [r(None, -1)], [r(0, 100)], [r(2, 1)], [r(-100, 2)], [r(3, 9)],
    [r(None, None, 2)], [full, r(1, 4, 2)], [full, r(None, None, 3)], [full, r(-3, -1)], [full, full, r(4, None, 7)],
    [dots], [dots, i(0)], [i(0), dots], [i(1), dots, i(2)], [dots, r(1, 3)], [dots, full, full, full], [full, dots, full],
    [new], [new, i(0)], [i(0), new], [full, new], [dots, new], [new, dots, new], [new, new, i(1), full], [full, i(1), new, r(0, 2)],
    [pos([0, 2])], [pos([-1, 0, 0])], [pos([0, 2], dtype="int32")], [full, pos([3, 0])], [full, full, pos([4, 4, 1])],
    [pos([0, 1, 2, 0], 2, 2)], [pos([0, 1]), pos([2, 3])], [pos([0, 1], 2, 1), pos([2, 3, 0], 1, 3)], [pos([0, 1]), pos([1], 1)],
    [pos([0, 2]), full, pos([1, 4])], [full, pos([0, 2]), pos([1, 4])], [pos([0, 2]), r(1, 3)], [r(0, 2), pos([1, 3])],
    [pos([0, 2]), new], [new, pos([0, 2])], [dots, pos([0, 2])], [pos([0, 2]), dots, pos([1, 4])], [pos([0, 1, 2]), pos([0, 1, 2]), pos([0, 1, 2])],
    [{"pos": [], "shape": [0], "dtype": "int64"}], [{"pos": [], "shape": [0, 2], "dtype": "int64"}],
    [m3], [full, mask([True, False, False, True])], [m34], [m34, i(0)], [m34, r(1, 3)], [m34, new], [new, m34], [m34, dots],
    [mask([k % 7 == 3 for k in range(60)], 3, 4, 5)], [mask([False] * 3)], [m3, pos([0, 1])], [m3, full, pos([1, 4])], [dots, mask([True, False, True, False, True])],
    [pos([2], 1), m3], [m34, pos([1, 2, 0])],
]:
    case([3, 4, 5], *idx)
# An integer beside a tensor is a plain selection in PyTorch, an index array in NumPy.
for idx in [[i(0), full, pos([1, 2])], [pos([0, 2]), full, i(1)], [i(0), pos([1, 2])], [pos([0, 1]), i(2)], [m3, i(1)], [i(2), m3]]:
    case([3, 4, 5], *idx, numpy=False)
# Zero-dimensional tensors: an integer selects, a bool adds a dimension.
for idx in [[{"pos": [1], "shape": [], "dtype": "int64"}], [full, {"pos": [-1], "shape": [], "dtype": "int32"}], [{"mask": [True], "shape": []}], [{"mask": [False], "shape": []}], [b(True)], [b(False)], [full, b(True), i(0)], [b(True), i(0)]]:
    case([3, 4, 5], *idx, numpy=False)
case([], )
case([], dots)
case([], new)
case([], b(True), numpy=False)
case([0, 3], full, i(1))
case([0, 3], r(0, 1))
case([7], r(None, None, 3))
case([7], r(-1, None))
case([7], pos([6, -7]))
# Errors.
for shape, idx in [([3, 4], [i(3)]), ([3, 4], [i(-4)]), ([3, 4], [full, i(4)]), ([3, 4], [i(0), i(0), i(0)]), ([], [i(0)]), ([3], [full, full]), ([3], [new, i(0), i(0)]),
                   ([3, 4], [pos([3])]), ([3, 4], [pos([0, 1]), pos([0, 1, 2])]), ([3, 4], [mask([True] * 4)]), ([3], [mask([True] * 6, 2, 3)]), ([3, 4], [mask([True] * 16, 4, 4)]),
                   ([3], [r(None, None, -1)]), ([3], [r(None, None, 0)]), ([3], [pos([0, 1], dtype="float32")])]:
    case(shape, *idx, numpy=False)
# Assignment.
v = lambda vals, *shape: {"values": vals, "shape": list(shape)}
for idx, value in [
    ([], 7), ([dots], 7), ([i(0)], 7), ([i(0), i(1)], -3), ([full, i(2)], 9), ([r(0, 2), r(1, 3)], 5), ([full, r(None, None, 2)], 4),
    ([m34], 8), ([m34], v([1, 2, 3][:int(np.sum(np.array(m34["mask"])))], 3)), ([pos([0, 2])], 6), ([pos([0, 2]), pos([1, 3])], v([50, 60], 2)),
    ([i(1)], v([1, 2, 3, 4], 4)), ([full, i(1)], v([1, 2, 3], 3)), ([r(0, 2)], v([1, 2, 3, 4], 4)), ([r(0, 2)], v([1, 2], 2, 1)), ([i(1)], v([9, 8, 7, 6], 1, 1, 4)),
    ([full, pos([3, 0])], v([1, 2], 2)), ([full, pos([3, 0])], v([1, 2, 3, 4, 5, 6], 3, 2)), ([new, i(0)], 3), ([m3], v([1, 2, 3, 4], 4)), ([m3, pos([1, 2])], 77),
    ([pos([], 0)], 1), ([mask([False] * 3)], 1), ([b(True)], 2), ([b(False)], 2), ([dots, i(-1)], v([5], 1, 1)), ([m34, new], 3),
]:
    case([3, 4], *idx, value=value)
for idx, value in [([i(2), i(3)], v([5], 1)), ([i(0)], v([1, 2, 3], 3)), ([i(3)], 1), ([m34], v([1, 2], 2)), ([pos([0, 1])], v([1, 2, 3], 3, 1)), ([i(0), i(0)], v([1, 2], 2))]:
    case([3, 4], *idx, value=value, numpy=False)

out = {"torch": torch.__version__, "numpy": np.__version__, "cases": cases}
text = json.dumps(out)
for c in ('{"base"',):
    text = text.replace(c, "\n" + c)
pathlib.Path(__file__).with_name("index.json").write_text(text + "\n")
print(len(cases), "cases,", sum("error" in c for c in cases), "errors")
