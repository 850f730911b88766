"""The fused operators from Python: the ops library alone, against the reference numbers, autograd in Python,
meta tensors, refusals. Usage: python fused_ops.py libgospml-ops-cpu.so golden_losses.json"""
import json
import sys

import torch
from torch import library

torch.ops.load_library(sys.argv[1])
ops = torch.ops.spml
REDUCTION = {"mean": 1, "sum": 2, "batch": 3}


def an_ls(h):
    ls = h["ls_coef"]
    return (h.get("pos_target", 1 - ls), h.get("neg_target", ls))


def gr(h):
    return [h[k] for k in ("w", "b", "mu", "sigma")] + [h.get("q1", 0), h["q2"], h["q3"]]


# method of the file -> operator, label inputs, its numbers from the hyper-parameters
FORMS = {
    "bce_full": (ops.an, ["full"], lambda h: [1]),
    "an": (ops.an, ["obs"], lambda h: [1]),
    "iun": (ops.an_masked, ["obs", "full"], lambda h: [0]),
    "en": (ops.an_masked, ["obs", "neg_mask"], lambda h: [1]),
    "an_ls": (ops.an_ls, ["obs"], an_ls),
    "em": (ops.em, ["obs"], lambda h: [h["alpha"]]),
    "em_apl": (ops.em_apl, ["labels"], lambda h: [h["alpha"], h["beta"]]),
    "gr": (ops.gr, ["obs"], gr),
}

top = json.load(open(sys.argv[2]))
n = 0
for case in top["cases"]:
    form = FORMS.get(case["method"])
    if form is None:
        continue
    op, labels, numbers = form
    h, inputs, want = case["hyperparameters"], case["inputs"], case["expected"]
    for dtype, atol, rtol in ((torch.float64, 1e-9, 1e-9), (torch.float32, 1e-6, 2e-5)):
        z = torch.tensor(inputs["logits"], dtype=dtype, requires_grad=True)
        y = [torch.tensor(inputs[k], dtype=dtype) for k in labels]
        loss = op(z, *y, *map(float, numbers(h)), log_eps=float(h.get("eps", 0)), reduction=REDUCTION[h.get("reduction") or "mean"])
        loss.backward()
        for got, w in ((loss.detach(), want["loss"]), (z.grad, want["grad_logits"])):
            torch.testing.assert_close(got.double(), torch.tensor(w, dtype=torch.float64), atol=atol, rtol=rtol, msg=lambda m: f"{case['id']} {dtype}: {m}")
        n += 1

z, y = torch.randn(5, 7, dtype=torch.float64, requires_grad=True), torch.zeros(5, 7, dtype=torch.int8)
assert torch.autograd.gradcheck(lambda z: ops.em(z, y, 0.1), (z,))
shapes = [t.shape for t in ops.em_fwd(z.detach().to("meta"), y.to("meta"), 0.1)]
assert shapes == [(), (5, 7)], shapes
library.opcheck(ops.em_fwd.default, (z.detach(), y, 0.1), test_utils=("test_schema", "test_faketensor"))
for refused in (lambda: torch.autograd.grad(ops.em(z, y), z, create_graph=True), lambda: torch.func.jvp(lambda z: ops.em(z, y), (z.detach(),), (z.detach(),))):
    try:
        refused()
    except RuntimeError as e:
        assert "impl=composed" in str(e), e
    else:
        raise SystemExit("not refused")
assert n > 100, n
print(n, "cases agree;", ops.cpu_kernels())
