"""Writes one.json: the colour of a picture of one pixel after every RandAugment operation at every level and sign.
Needs Pillow 13 and randaugment 1.0.2, which wants np.int.   Run: python make_one.py"""
import json, random
from pathlib import Path

import numpy as np
np.int = int
import PIL
from PIL import Image
from randaugment.randaugment import RandAugment, SubPolicy

SIGNED = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Color", "Contrast", "Sharpness", "Brightness")


def op(im, name, level, sign):
    random.choice = lambda _: sign
    return SubPolicy(1.0, name, level, 0.0, "Invert", 1)(im)


out = []
for colour in ((0, 0, 0), (255, 255, 255), (200, 30, 90), (17, 128, 129), (254, 1, 127)):
    ops = {}
    for name in RandAugment.get_trans_list():
        if name == "Cutout": continue  # its code fails on a side of one pixel
        for level in range(1, 10):
            for sign in (1, -1) if name in SIGNED else (1,):
                ops[f"{name} {sign * level}"] = op(Image.new("RGB", (1, 1), colour), name, level, sign).getpixel((0, 0))
    out.append({"colour": colour, "ops": ops})
Path(__file__).with_name("one.json").write_text(json.dumps(
    {"about": f"Pillow {PIL.__version__}, randaugment 1.0.2", "pictures": out}, separators=(",", ":")) + "\n")
