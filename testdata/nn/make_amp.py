"""Writes amp.json: GradScaler of PyTorch 2.11.0 on the CPU, with gradients that overflow, and what autocast gives.

    python make_amp.py
"""
import json
import math
import os

import torch

torch.set_num_threads(1)
HERE = os.path.dirname(os.path.abspath(__file__))
steps = []
torch.manual_seed(0)
w, b = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0])), torch.nn.Parameter(torch.tensor([0.5]))
opt = torch.optim.SGD([w, b], lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
for i in range(20):
    opt.zero_grad()
    factor = [1.0, 1e36, math.nan][2 if i == 13 else 1 if i in (2, 5, 6) else 0]
    loss = ((w * torch.tensor([0.1, 0.2, -0.3])).sum() * b).sum() * factor
    scaler.scale(loss).backward()
    norm = 0.0
    if i % 4 == 3:
        scaler.unscale_(opt)
        norm = torch.nn.utils.clip_grad_norm_([w, b], 0.05).item()
    scaler.step(opt)
    scaler.update()
    s = scaler.state_dict()
    steps.append({"factor": str(factor), "clip": i % 4 == 3, "norm": str(norm), "w": w.tolist(), "b": b.tolist(), "scale": s["scale"], "tracker": s["_growth_tracker"]})

names = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16", torch.float64: "float64", torch.int64: "int64"}
x, y, v = torch.linspace(-1, 1, 12).reshape(3, 4), torch.linspace(0, 2, 8).reshape(4, 2), torch.linspace(-2, 1, 4)
img, k = torch.linspace(-1, 1, 32).reshape(1, 2, 4, 4), torch.linspace(-1, 1, 36).reshape(2, 2, 3, 3)
F = torch.nn.functional
calls = {
    "matmul": lambda: x @ y, "linear": lambda: F.linear(x, y.T.contiguous()), "conv2d": lambda: F.conv2d(img, k), "add": lambda: x + v, "softmax": lambda: F.softmax(x @ y, 1),
    "mse_loss": lambda: F.mse_loss(x @ y, torch.zeros(3, 2)), "exp": lambda: torch.exp(x @ y), "layer_norm": lambda: F.layer_norm(x, (4,)),
    "cat": lambda: torch.cat([x @ y, torch.zeros(1, 2)]), "sdpa": lambda: F.scaled_dot_product_attention(x[None], x[None], x[None]),
}
cast = {}
for dt in (torch.bfloat16, torch.float16):
    with torch.autocast("cpu", dtype=dt):
        cast[names[dt]] = {n: {"dtype": names[f().dtype], "sum": f().double().sum().item(), "first": f().double().flatten()[:3].tolist()} for n, f in calls.items()}
with open(os.path.join(HERE, "amp.json"), "w") as f:
    json.dump({"about": {"made_by": "make_amp.py", "torch": torch.__version__}, "steps": steps, "autocast": cast}, f, separators=(",", ":"))
    f.write("\n")
