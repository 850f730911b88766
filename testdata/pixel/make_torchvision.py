"""Writes torchvision.json: crc32 of torchvision's resize of uint8 tensors with antialias, natively (transforms.v2) and by way of float32 (v1).
Case i is a drawn picture.   Run: python make_torchvision.py"""
import json, zlib
from pathlib import Path

import numpy as np
import torch, torchvision
from torchvision.transforms import functional as v1, v2
from torchvision.transforms import InterpolationMode as M


def picture(seed, w, h):
    u = np.random.RandomState(seed).random_sample((h, w, 3))
    if seed % 2:  # smooth, so that sums fall near the middle between two levels
        u = (u + np.arange(w)[None, :, None] / w * 3 + np.arange(h)[:, None, None] / h * 4) / 8
    return (u * 256).astype(np.uint8)


def crc(t): return zlib.crc32(t.permute(1, 2, 0).contiguous().numpy().tobytes())


cases = []
for seed in range(80):
    g = np.random.RandomState(9000 + seed)
    most = 700 if seed % 8 == 0 else 90
    w, h = (int(v) for v in g.randint(1, most, 2))
    ow, oh = (int(v) for v in g.randint(1, 500 if seed % 8 == 0 else 90, 2))
    if seed % 10 == 3: ow = w
    if seed % 10 == 4: oh = h
    t = torch.from_numpy(picture(seed, w, h)).permute(2, 0, 1)
    cases.append([w, h, ow, oh] + [crc(f.resize(t, (oh, ow), interpolation=k, antialias=True)) for f in (v2.functional, v1) for k in (M.BILINEAR, M.BICUBIC)])
Path(__file__).with_name("torchvision.json").write_text(json.dumps(
    {"about": f"torchvision {torchvision.__version__}, torch {torch.__version__}; width, height, to width, to height, then uint8 bilinear and bicubic, float bilinear and bicubic",
     "cases": cases}, separators=(",", ":")) + "\n")
