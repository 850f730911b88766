"""Writes small/*.pth.gz, files of many small tensors, with PyTorch 2.11: python small.py. small/expected.json holds the number of tensors and the
SHA-256 of their names, types, shapes and bytes in the order of the file, as torch.load gives them."""

import gzip
import hashlib
import io
import json
import pathlib

import torch
from torch import nn

here = pathlib.Path(__file__).parent / "small"
here.mkdir(exist_ok=True)
torch.manual_seed(0)
expected = {}


def walk(x, name=""):
    if isinstance(x, torch.Tensor):
        t = x.detach().contiguous().reshape(-1)
        yield f"{name}|{str(x.dtype).removeprefix('torch.')}|{list(x.shape)}|{t.view(torch.uint8).numpy().tobytes().hex()}\n"
    elif isinstance(x, dict):
        for k, v in x.items():
            yield from walk(v, f"{name}.{k}")
    elif isinstance(x, (list, tuple)):
        for i, v in enumerate(x):
            yield from walk(v, f"{name}.{i}")


def save(name, obj, **kw):
    b = io.BytesIO()
    torch.save(obj, b, **kw)
    (here / f"{name}.pth.gz").write_bytes(gzip.compress(b.getvalue(), 9, mtime=0))
    lines = list(walk(torch.load(io.BytesIO(b.getvalue()), weights_only=True)))
    expected[name] = {"tensors": len(lines), "sha256": hashlib.sha256("".join(lines).encode()).hexdigest(), "bytes": len(b.getvalue())}


def adam(n):
    parameters = [nn.Parameter(torch.full((2,), float(i))) for i in range(n)]
    optimizer = torch.optim.Adam(parameters, amsgrad=True)
    for i, p in enumerate(parameters):
        p.grad = torch.full_like(p, i + 1)
    optimizer.step()
    return {"epoch": 3, "model": {f"layers.{i}.weight": p for i, p in enumerate(parameters)}, "optimizer": optimizer.state_dict()}


scalars = {f"blocks.{i}.attention.logit_scale_of_this_block": nn.Parameter(torch.tensor(float(i))) for i in range(500)}
save("scalars", scalars)
save("scalars-legacy", scalars, _use_new_zipfile_serialization=False)
save("batchnorm", nn.Sequential(*[nn.BatchNorm2d(8) for _ in range(400)]).state_dict())
save("layernorm", nn.Sequential(*[nn.LayerNorm(16) for _ in range(1500)]).state_dict())
save("adam", adam(1000))
save("adam-legacy", adam(1000), _use_new_zipfile_serialization=False)
flat = torch.arange(2000.0)
save("views", {f"v{i}": flat[i : i + 1] for i in range(2000)})
(here / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
