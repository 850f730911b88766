"""Reads written.bin, which TestTorchReadsOurs wrote (PTH_WRITE=1), with PyTorch 2.11 and writes what it gives: python check.py."""

import json
import pathlib

import torch

here = pathlib.Path(__file__).parent
for mmap in (False, True):
    d = torch.load(here / "written.bin", weights_only=True, mmap=mmap)
    out = []
    for name, t in d.items():
        flat = t.contiguous().reshape(-1)
        raw = flat.view(torch.uint8).numpy().tobytes() if t.numel() else b""
        out.append({"name": name, "dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape), "hex": raw[:64].hex()})
(here / "written.json").write_text(json.dumps(out, indent=1))
