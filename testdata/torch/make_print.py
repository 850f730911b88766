"""Writes print.json: what Python's repr prints for many tensors. Run: python make_print.py

Each case holds the elements (little endian, base64), dtype, shape, how the tensor is changed before it is printed, and the text."""
import base64
import json
import math
import pathlib

import torch

cases = []
inf, nan = math.inf, math.nan


def add(name, t, then=""):
    """then: what the test does to the tensor made from the elements: '' | grad | t (transpose) | meta | name of an op that leaves a grad_fn."""
    raw = t.contiguous()
    raw = raw.view(torch.uint8) if raw.numel() and raw.dim() else raw.reshape(-1).view(torch.uint8) if raw.numel() else torch.empty(0, dtype=torch.uint8)
    shown = t.clone()
    if then == "grad":
        shown.requires_grad_()
    elif then == "t":
        shown = shown.t()
    elif then == "meta":
        shown = torch.empty(shown.shape, dtype=shown.dtype, device="meta")
    elif then == "mul":
        shown = shown.requires_grad_()
        shown = shown * shown
    elif then == "sum":
        shown = shown.requires_grad_().sum()
    elif then == "view":
        shown = shown.requires_grad_().view(-1)
    elif then == "select":
        shown = shown.requires_grad_()[0]
    elif then == "slice":
        shown = shown[:, ::2]
    elif then == "conj":
        shown = shown.conj()
    cases.append({"name": name, "dtype": str(t.dtype)[6:], "shape": list(t.shape), "then": then,
                  "data": base64.b64encode(bytes(raw.reshape(-1).tolist())).decode(), "text": repr(shown)})


g = torch.Generator().manual_seed(7)


def rnd(*shape, **kw):
    return torch.randn(*shape, generator=g, **kw)


T = torch.tensor
add("two by two", T([[1.0, 2.0], [3.0, 4.0]]))
add("decimals", T([1.12345, 2.5]))
add("third", T([1 / 3, 2 / 3]))
add("scalar float", T(3.14159))
add("scalar whole", T(2.0))
add("scalar int", T(7))
add("scalar bool", T(True))
add("scalar negative", T(-0.5))
add("scalar tiny", T(1e-9))
add("scalar huge", T(3e9))
add("scalar nan", T(nan))
add("scalar inf", T(-inf))
add("empty", T([]))
add("empty 0x3", torch.empty(0, 3))
add("empty 2x0x4", torch.empty(2, 0, 4))
add("empty int", torch.empty(0, dtype=torch.int64))
add("empty half 0x2", torch.empty(0, 2, dtype=torch.float16))
add("zeros", torch.zeros(3))
add("negative zero", T([-0.0, 1.0]))
add("negatives", T([-1.5, 2.25, -3.125]))
add("ints", T([1, -20, 300]))
add("ints matrix", torch.arange(12).reshape(3, 4))
add("int8", T([-128, 127], dtype=torch.int8))
add("uint8", T([[0, 255], [3, 44]], dtype=torch.uint8))
add("int16", T([-300, 7], dtype=torch.int16))
add("int32", T([1, 2, 3], dtype=torch.int32))
add("int64 large", T([2**62, -(2**62)]))
add("bools", T([True, False, True]))
add("bool matrix", T([[True, False], [False, False]]))
add("all true", T([True, True]))
add("float64", T([1.0, 2.5], dtype=torch.float64))
add("float64 thirds", T([1 / 3, -1 / 7, 2e-3], dtype=torch.float64))
add("half", T([1.0, 0.333], dtype=torch.float16))
add("half large", T([65504.0, 1.0], dtype=torch.float16))
add("bfloat16", T([1.0, 3.14159, -2.7], dtype=torch.bfloat16))
add("bfloat16 whole", T([1.0, 256.0], dtype=torch.bfloat16))
add("nan among whole", T([1.0, nan, 3.0]))
add("nan among fractions", T([1.5, nan, -3.0]))
add("inf among whole", T([1.0, inf, -inf]))
add("inf among fractions", T([1.5, inf, -inf]))
add("only nonfinite", T([nan, inf, -inf]))
add("nan and zero", T([nan, 0.0]))
add("sci by ratio", T([1.0, 10000.5]))
add("sci whole by ratio", T([1.0, 10000.0]))
add("not sci at 1000", T([1.0, 1000.0]))
add("sci by size", T([1e9, 2e9]))
add("sci small", T([1e-5, 2e-5]))
add("sci just below", T([9e-5, 5e-5]))
add("not sci just above", T([1.1e-4, 5e-4]))
add("sci just above 1000", T([1.0, 1000.5]))
add("sci with nonfinite", T([1e-5, nan, inf, -2.0]))
add("sci large exponent", T([1e-30, 1e30]))
add("float64 exponent of three digits", T([1e-200, 1e150], dtype=torch.float64))
add("denormal", T([1e-45, 1.0]))
add("just whole", T([16777216.0, 1.0, 2.0]))
add("rounds up", T([0.99999, 0.12344999]))
add("line break", torch.arange(40))
add("line break floats", rnd(30))
add("line break whole floats", torch.arange(50.0))
add("matrix of line breaks", rnd(3, 20))
add("rank 3", rnd(2, 3, 4))
add("rank 4", rnd(2, 1, 2, 3))
add("rank 5 ones", torch.ones(1, 2, 1, 2, 2))
add("threshold exactly", torch.arange(1000))
add("above threshold", torch.arange(1001))
add("above threshold floats", rnd(2000))
add("summarised matrix", rnd(50, 50))
add("summarised thin", rnd(300, 4))
add("summarised wide", rnd(4, 300))
add("summarised rank 3", rnd(20, 20, 20))
add("summarised rank 4 mixed", rnd(7, 2, 6, 13))
add("summarised with six", rnd(6, 200))
add("summarised with seven", rnd(7, 200))
add("summarised bool", (torch.arange(1200) % 3 == 0).reshape(30, 40))
add("summarised int8", (torch.arange(1100) % 100).to(torch.int8))
add("summarised sci at the middle only", torch.cat([torch.ones(5), T([1e9]), torch.ones(1100)]))
add("requires grad", T([1.0, 2.0]), "grad")
add("requires grad double", T([1.0, 2.0], dtype=torch.float64), "grad")
add("requires grad long line", torch.arange(17.0), "grad")
add("mul", T([1.0, 2.0]), "mul")
add("sum", T([1.0, 2.5]), "sum")
add("view", T([[1.0, 2.5]]), "view")
add("select", T([[1.0, 2.5]]), "select")
add("suffixes break the line", rnd(7, dtype=torch.float64), "mul")
add("transposed", torch.arange(6).reshape(2, 3), "t")
add("strided", torch.arange(12.0).reshape(2, 6), "slice")
add("transposed summarised", rnd(70, 30), "t")
add("meta", torch.zeros(2, 3), "meta")
add("meta int vector", torch.zeros(3, dtype=torch.int64), "meta")
add("complex", T([1 + 2j, 3.5 - 1j]))
add("complex matrix", T([[1 + 2j, 0j], [-1j, 2.25 + 0j]]))
add("complex conj", T([1 + 2j, 3.5 - 1j]), "conj")
add("complex scalar", T(1 - 2j))

out = {"torch": torch.__version__, "about": "repr of tensors with default print options", "cases": cases}
pathlib.Path(__file__).with_name("print.json").write_text(json.dumps(out, indent=0, ensure_ascii=True))
print(len(cases), "cases")
