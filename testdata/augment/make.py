"""Writes ops.json: crc32 of every RandAugment operation at every level and sign, of torchvision's jitter operations and of crops, on drawn pictures.
Needs Pillow 13, torchvision 0.26 and randaugment 1.0.2, which wants np.int.   Run: python make.py"""
import json, random, zlib
from pathlib import Path

import numpy as np
np.int = int
import PIL, torchvision
from PIL import Image
from randaugment.randaugment import RandAugment, SubPolicy
from torchvision.transforms import functional as TF


def picture(seed, w, h):
    """uint8 [h, w, 3] whose channels have different histograms"""
    u = np.random.RandomState(seed).random_sample((h, w, 3))
    u[..., 1] = u[..., 1] * u[..., 1]
    u[..., 2] = 0.2 + 0.5 * u[..., 2]
    if seed % 2:  # smooth, so that neighbours are alike
        u = (u + np.arange(w)[None, :, None] / w * 3 + np.arange(h)[:, None, None] / h * 4) / 8
    if seed % 5 == 4:
        u = u * 0 + 0.3
    return Image.fromarray((u * 256).astype(np.uint8))


def crc(im):
    assert im.mode == "RGB"
    return zlib.crc32(im.tobytes())


def op(im, name, level, sign, centre):
    random.choice = lambda _: sign
    it = iter(centre)
    np.random.randint = lambda low, high: next(it)
    return SubPolicy(1.0, name, level, 0.0, "Invert", 1)(im)


SIGNED = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Color", "Contrast", "Sharpness", "Brightness")
sizes = [(24, 32), (61, 47), (1, 7), (2, 2), (3, 3), (100, 5), (448, 448), (333, 500), (64, 64), (17, 90)]
out = []
for seed, (w, h) in enumerate(sizes):
    im = picture(seed, w, h)
    centre = (w // 3, h - 1)
    ops = {}
    for name in RandAugment.get_trans_list():
        if name == "Cutout" and min(w, h) == 1: continue
        for level in range(1, 10):
            for sign in (1, -1) if name in SIGNED else (1,):
                ops[f"{name} {sign * level}"] = crc(op(im, name, level, sign, centre))
    for hue in (-0.5, -0.1, -0.0371, 0, 0.004, 0.0999, 0.25, 0.5):
        ops[f"Hue {hue}"] = crc(TF.adjust_hue(im, hue))
    ops["Gray"] = crc(TF.to_grayscale(im, 3))
    ops["Flip"] = crc(TF.hflip(im))
    for turn in (-33.3, 90, 180, 271, 45):
        rot = im.convert("RGBA").rotate(turn)
        ops[f"Turn {turn}"] = crc(Image.composite(rot, Image.new("RGBA", rot.size, (128,) * 4), rot).convert("RGB"))
    for x, y, cw, ch in ((w // 4, h // 5, max(1, w // 2), max(1, h // 2)), (0, 0, w, max(1, h - 1))):
        for n, kind in ((9, 2), (224, 3)):
            ops[f"Crop {x} {y} {cw} {ch} {n} {kind}"] = crc(TF.resized_crop(im, y, x, ch, cw, (n, n), {2: TF.InterpolationMode.BILINEAR, 3: TF.InterpolationMode.BICUBIC}[kind]))
    out.append({"seed": seed, "wh": [w, h], "crc32": crc(im), "centre": centre, "ops": ops})
Path(__file__).with_name("ops.json").write_text(json.dumps(
    {"about": f"Pillow {PIL.__version__}, torchvision {torchvision.__version__}, randaugment 1.0.2", "pictures": out}, separators=(",", ":")) + "\n")
