"""Writes photos.json: pseudo-labels of photos by VLPL and DAMP through a tiny CLIP, from the file on: decoding, views,
resizing and normalising by Pillow, the image tower of shared/data/clip_tiny/hf_gelu_fp32 by its formulas in PyTorch
(float64), cosines, labels.

    python testdata/label/make_photos.py ../shared/data        # wants torch, numpy, Pillow
"""

import json
import math
import os
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PHOTOS = [
    "VOCdevkit/VOC2012/JPEGImages/2007_000549.jpg",
    "miml/images/1003.jpg",
    "miml/images/16.jpg",
    "miml/images/19.jpg",
    "miml/images/994.jpg",
]
SIDE, CLASSES, HEADS, LAYERS = 48, 7, 3, 3


def weights(path):
    """A safetensors file: a length, a JSON head, the bytes."""
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8 : 8 + n])
    out = {}
    for k, e in head.items():
        if k != "__metadata__":
            a, b = e["data_offsets"]
            out[k] = torch.tensor(
                np.frombuffer(raw[8 + n + a : 8 + n + b], {"F32": "<f4", "I64": "<i8"}[e["dtype"]])
                .reshape(e["shape"])
                .copy()
            ).double()
    return out


def tower(w, x):
    """The image embedding of pixels x [n, 3, SIDE, SIDE]."""
    p = "vision_model."
    ln = lambda h, k: F.layer_norm(h, h.shape[-1:], w[k + ".weight"], w[k + ".bias"], 1e-5)
    lin = lambda h, k: h @ w[k + ".weight"].T + w[k + ".bias"]
    h = F.conv2d(x, w[p + "embeddings.patch_embedding.weight"], stride=16).flatten(2).transpose(1, 2)
    h = (
        torch.cat((w[p + "embeddings.class_embedding"].reshape(1, 1, -1).expand(len(x), 1, -1), h), 1)
        + w[p + "embeddings.position_embedding.weight"]
    )
    h = ln(h, p + "pre_layrnorm")
    for i in range(LAYERS):
        k = f"{p}encoder.layers.{i}."
        a = ln(h, k + "layer_norm1")
        split = lambda t: t.reshape(len(x), -1, HEADS, t.shape[-1] // HEADS).transpose(1, 2)
        q, key, v = (split(lin(a, k + f"self_attn.{n}_proj")) for n in "qkv")
        att = torch.softmax(q @ key.transpose(2, 3) / math.sqrt(q.shape[-1]), -1) @ v
        h = h + lin(att.transpose(1, 2).flatten(2), k + "self_attn.out_proj")
        h = h + lin(F.gelu(lin(ln(h, k + "layer_norm2"), k + "mlp.fc1")), k + "mlp.fc2")
    return ln(h[:, 0], p + "post_layernorm") @ w["visual_projection.weight"].T


def pixels(image, form):
    """A view as the tower sees it: squashed to its side."""
    if form == "code-vlpl":  # by way of 448, then on the normalised pixels as torchvision does from 0.17 on
        x = tensor(image.resize((448, 448), Image.BILINEAR), IMAGENET_MEAN, IMAGENET_STD)
        return F.interpolate(x[None], (SIDE, SIDE), mode="bilinear", align_corners=False, antialias=True)[0]
    if form == "code-damp":
        return tensor(image.resize((SIDE, SIDE), Image.BILINEAR), IMAGENET_MEAN, IMAGENET_STD)
    return tensor(image.resize((SIDE, SIDE), Image.BICUBIC), CLIP_MEAN, CLIP_STD)


def tensor(image, mean, std):
    x = torch.tensor(np.asarray(image).copy()).double().permute(2, 0, 1) / 255
    return (x - torch.tensor(mean).double()[:, None, None]) / torch.tensor(std).double()[:, None, None]


def tiles(image, g):
    w, h = image.size[0] // g, image.size[1] // g
    return [image.crop((x * w, y * h, (x + 1) * w, (y + 1) * h)) for y in range(g) for x in range(g)]


def order(v):
    """Indices from the lowest up, which must not hang on a rounding."""
    o = sorted(range(len(v)), key=lambda i: float(v[i]))
    assert all(float(v[b]) - float(v[a]) > 1e-5 for a, b in zip(o, o[1:])), "too near each other"
    return o


def lowest(v, n):
    return order(v)[:n] if n else []


def vlpl(cos, observed, c):
    """The default form takes negatives among the classes that are neither positive nor observed."""
    p = torch.softmax(cos / c["tau"], -1)
    assert (p - c["theta"]).abs().min() > 1e-4, "too near the threshold"
    labels = (p > c["theta"]).int()
    for row, q, seen in zip(labels, p, observed):
        taken = lambda j: c["form"] == "" and (row[j] == 1 or j == seen)
        free = [j for j in order(q) if not taken(j)]
        for j in free[: int(c["delta"] * CLASSES)]:
            row[j] = -1
    return p, labels


def damp(cos, patches, observed, c):
    s, sl = torch.softmax(cos / c["tau"], -1), torch.softmax(patches / c["tau"], -1)  # [B, C], [B, g², C]
    code, scores, labels = c["form"] == "code", [], []
    for i, seen in enumerate(observed):
        local = min(float(s[i, seen]), c["nu"])
        best, worst = sl[i].max(0).values, sl[i].min(0).values
        assert (best - local).abs().min() > 1e-5, "too near the local threshold"
        final = (s[i] + torch.where(best > local if code else best >= local, best, worst)) / 2
        average = (s[i] + sl[i].mean(0)) / 2
        assert (final - c["theta"]).abs().min() > 1e-4, "too near the threshold"
        row = [0] * CLASSES
        for j in order(final)[::-1][: c["top_k"]]:
            row[j] = int(final[j] >= c["theta"])
        for j in lowest(average, int(c["delta"] * CLASSES)):
            if code:
                row[j] = 0
            elif row[j] == 0 and j != seen:
                row[j] = -1
        scores.append(final.tolist())
        labels.append(row)
    return scores, labels


def main(data):
    torch.set_default_dtype(torch.float64)
    w = weights(os.path.join(data, "clip_tiny", "hf_gelu_fp32", "model.safetensors"))
    g = np.random.RandomState(4)
    text = np.round(g.randn(CLASSES, 12), 4)
    unit = torch.tensor(text / np.linalg.norm(text, axis=1, keepdims=True))
    observed = [int(i) for i in g.randint(CLASSES, size=len(PHOTOS))]
    photos = [Image.open(os.path.join(data, p)).convert("RGB") for p in PHOTOS]

    def cosines(views, form):
        f = tower(w, torch.stack([pixels(v, form) for v in views]))
        return f / f.norm(dim=1, keepdim=True) @ unit.T

    cases = []
    for c in [
        {"method": "vlpl", "form": "", "tau": 0.1, "theta": 0.25, "delta": 0},
        {"method": "vlpl", "form": "", "tau": 0.3, "theta": 0.2, "delta": 0.3},
        {"method": "vlpl", "form": "paper", "tau": 0.3, "theta": 0.2, "delta": 0.3},
        {"method": "vlpl", "form": "code", "tau": 0.3, "theta": 0.2, "delta": 0.3},
        {
            "method": "damp",
            "form": "",
            "tau": 0.2,
            "theta": 0.2,
            "delta": 0.3,
            "nu": 0.15,
            "top_k": 3,
            "grid": 2,
        },
        {
            "method": "damp",
            "form": "",
            "tau": 0.1,
            "theta": 0.3,
            "delta": 0.5,
            "nu": 0.05,
            "top_k": 2,
            "grid": 3,
        },
        {
            "method": "damp",
            "form": "code",
            "tau": 0.2,
            "theta": 0.2,
            "delta": 0.3,
            "nu": 0.15,
            "top_k": 3,
            "grid": 2,
        },
    ]:
        views = f"code-{c['method']}" if c["form"] == "code" else ""
        whole = cosines(photos, views)
        c = dict(c, cosines=whole.tolist())
        if c["method"] == "vlpl":
            scores, labels = vlpl(whole, observed, c)
            c.update(scores=scores.tolist(), labels=labels.tolist())
        else:
            parts = torch.stack([cosines(tiles(p, c["grid"]), views) for p in photos])
            c["scores"], c["labels"] = damp(whole, parts, observed, c)
            c["cosines_of_tiles"] = parts.tolist()
        cases.append(c)
    path = os.path.join(os.path.dirname(__file__), "photos.json")
    with open(path, "w") as out:
        json.dump(
            {
                "torch": torch.__version__,
                "pillow": Image.__version__,
                "model": "clip_tiny/hf_gelu_fp32",
                "photos": PHOTOS,
                "text": text.tolist(),
                "observed": observed,
                "cases": cases,
            },
            out,
            separators=(",", ":"),
        )
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
