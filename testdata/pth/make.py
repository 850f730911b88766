"""Writes the .pth goldens with PyTorch 2.11 and numpy: python make.py. expected.json holds what torch.load gives."""

import argparse
import collections
import io
import json
import pathlib
import zipfile

import numpy as np
import torch

here = pathlib.Path(__file__).parent
torch.manual_seed(0)
expected = {}


def raw(t):
    t = t.detach().contiguous().reshape(-1)
    return t.view(torch.uint8).numpy().tobytes().hex() if t.numel() else ""


def describe(t):
    return {
        "dtype": str(t.dtype).removeprefix("torch."),
        "shape": list(t.shape),
        "stride": list(t.stride()),
        "offset": t.storage_offset(),
        "parameter": isinstance(t, torch.nn.Parameter),
        "requires_grad": t.requires_grad,
        "hex": raw(t),
    }


def save(name, obj, entries, **kw):
    torch.save(obj, here / name, **kw)
    expected[name] = {k: describe(t) for k, t in entries.items()}


names = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
new = "uint16 uint32 uint64 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu complex32".split()
dtypes = collections.OrderedDict()
for n in names + new:
    d = getattr(torch, n)
    size = torch.empty(0, dtype=d).element_size()
    data = torch.randint(0, 2 if n == "bool" else 256, (6 * size,), dtype=torch.uint8)
    dtypes[n] = data.view(d).reshape(2, 3)
save("dtypes.pth", dtypes, dtypes)
legacy = {k: t for k, t in dtypes.items() if k in names}
save("dtypes_legacy.pth", legacy, legacy, _use_new_zipfile_serialization=False)

base = torch.randn(5, 7, 3)
views = {
    "base": base,
    "transposed": base.permute(2, 0, 1),
    "column": base[:, 2, 1],
    "steps": base[1::2, ::3, :2],
    "expanded": base[:1, :, :1].expand(4, 7, 2),
    "scalar": base[4, 6, 2],
    "empty": base[:, :0],
    "ones": torch.ones(1, 4, 1)[:, ::2],
    "parameter": torch.nn.Parameter(torch.randn(2, 2)),
    "frozen": torch.nn.Parameter(torch.randn(2), requires_grad=False),
    "grad": torch.randn(2, requires_grad=True),
    "channels_last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
}
save("views.pth", views, views)
save("views_legacy.pth", views, views, _use_new_zipfile_serialization=False)
save("protocol4.pth", views, views, pickle_protocol=4)
save("protocol5.pth", views, views, pickle_protocol=5)

model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Sequential(torch.nn.Linear(4, 2)))
model(torch.randn(8, 3)).sum().backward()
opt = torch.optim.AdamW(model.parameters())
opt.step()
sd = model.state_dict()
checkpoint = {
    "epoch": 7,
    "arch": "tiny",
    "state_dict": sd,
    "optimizer": opt.state_dict(),
    "best": np.float64(91.25),
    "args": argparse.Namespace(lr=0.1, devices=[0, 1]),
}
save("checkpoint.pth", checkpoint, sd)

values = {
    "none": None, "true": True, "false": False, "int": -5, "large": 70000, "negative": -(2**40), "big": 2**70, "bigneg": -(2**70), "float": 0.1,
    "text": "Zürich ✓", "bytes": b"\x00\xffxy", "complex": complex(1, -2), "list": [1, [2, "3"], ()], "tuple": (1, (2, 3), 4, 5),
    "size": torch.Size([2, 3]), "dtype": torch.float16, "device": torch.device("cuda:1"), "set": {5}, "counter": collections.Counter("aab"),
    "array": np.arange(6, dtype=np.int16).reshape(2, 3), "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big_endian": np.arange(3, dtype=">f4"), "scalar": np.float32(1.5), "nbool": np.bool_(True), "nint": np.int64(-3), "strings": np.array(["a", "bcd"]),
    ("tuple", 1): "key", 3: "three",
}
torch.save(values, here / "values.pth")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = torch.nn.Linear(2, 2)
        self.register_buffer("mean", torch.tensor([0.5, 0.25]))
        self.scale = 3
        self.sizes = [1, 2]

    def forward(self, x):
        return self.proj(x - self.mean) * self.scale + self.sizes[0]


script = torch.jit.script(torch.nn.Sequential(Block(), torch.nn.ReLU(), Block()))
script.save(str(here / "script.pt"))
expected["script.pt"] = {k: dict(describe(t), parameter=False) for k, t in script.state_dict().items()}

# what torch.load(weights_only=True) says about files that must be refused or read
tied = torch.randn(3, 2)
save("tied.pth", {"a": tied, "b": tied, "c": tied[1:]}, {"a": tied, "b": tied, "c": tied[1:]})

# without CRCs, and big-endian
torch.serialization.set_crc32_options(False)
save("no_crc.pth", {"a": tied}, {"a": tied})
torch.serialization.set_crc32_options(True)
buf = io.BytesIO()
torch.save({"a": tied}, buf)
with zipfile.ZipFile(buf) as z, zipfile.ZipFile(here / "big_endian.pth", "w") as out:
    for i in z.infolist():
        data = z.read(i)
        if i.filename.endswith("byteorder"):
            data = b"big"
        if "/data/" in i.filename:
            data = np.frombuffer(data, "<f4").astype(">f4").tobytes()
        out.writestr(i.filename, data)
back = torch.load(here / "big_endian.pth")
assert torch.equal(back["a"], tied)
expected["big_endian.pth"] = {"a": describe(tied)}

(here / "expected.json").write_text(json.dumps(expected, indent=1))
