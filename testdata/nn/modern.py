"""Goldens of models that golden_backbones.json lacks: SqueezeNet's features, torchvision's ViT by its own keys, and one training step of
ConvNeXt and ViT. Fill and inputs are those of golden_backbones.json. Run: python modern.py  (torch 2.11, torchvision 0.26, timm 1.0)"""
import json
import math
import os
import zlib

import numpy as np
import timm
import torch
import torchvision


def det(name, shape, offset, scale):
    n = int(np.prod(shape)) if shape else 1
    k = np.uint32(zlib.crc32(name.encode()))
    with np.errstate(over="ignore"):
        h = np.arange(n, dtype=np.uint32) * np.uint32(2654435761) + k
        h ^= h >> np.uint32(15)
        h *= np.uint32(2246822519)
        h ^= h >> np.uint32(13)
    v = offset + scale * ((h >> np.uint32(8)).astype(np.float64) / (1 << 24) - 0.5)
    return torch.from_numpy(v.astype(np.float32)).reshape(shape)


def fill(m):
    with torch.no_grad():
        for k, t in m.state_dict().items():
            if t.dim() == 0:
                continue
            offset, scale = 0.0, 0.5
            if k.endswith("running_var") or t.dim() == 1 and k.endswith(".weight"):
                offset, scale = 1.0, 1.0
            elif t.dim() > 1 and k.endswith("weight"):
                scale = math.sqrt(24 / float(np.prod(t.shape[1:])))
            t.copy_(det(k, tuple(t.shape), offset, scale))
    return m.double()


def summary(t):
    v = t.detach().double().reshape(-1)
    return {"shape": list(t.shape), "sum": v.sum().item(), "sumsq": (v * v).sum().item(), "abs_max": v.abs().max().item(), "first": v[:8].tolist()}


def step(m, name, x):
    m.train()
    y = m(x)
    g = det("input:" + name + ":grad", tuple(y.shape), 0, 2).double()
    loss = (y * g).mean()
    loss.backward()
    norms = {}
    for k, p in m.named_parameters():
        top = k.split(".")[0]
        norms[top] = norms.get(top, 0) + (p.grad**2).sum().item()
    return {"loss": loss.item(), "logits": summary(y), "gradient_norm_per_group": {k: math.sqrt(v) for k, v in norms.items()}}


out = {"about": {"torch": torch.__version__, "torchvision": torchvision.__version__, "timm": timm.__version__}}
for name in ["squeezenet1_0", "squeezenet1_1"]:
    m = fill(getattr(torchvision.models, name)(num_classes=10)).eval()
    x = det("input:" + name, (2, 3, 64, 64), 0, 4).double()
    f = m.features(x)
    out[name] = {"map": summary(f), "pooled": summary(f.mean((2, 3)))}
m = fill(torchvision.models.VisionTransformer(64, 16, 2, 3, 48, 96 * 2, num_classes=10)).eval()
out["torchvision_vit"] = {"logits": summary(m(det("input:torchvision_vit", (2, 3, 64, 64), 0, 4).double()))}
m = fill(timm.create_model("vit_tiny_patch16_224", depth=2, num_classes=10, dynamic_img_size=True)).eval()
out["vit_resized"] = {"logits": summary(m(det("input:vit_resized", (1, 3, 96, 80), 0, 4).double()))}
name = "vit_step"
out[name] = step(fill(timm.models.vision_transformer.VisionTransformer(img_size=64, patch_size=16, embed_dim=48, depth=2, num_heads=3, num_classes=10)), name, det("input:" + name, (2, 3, 64, 64), 0, 4).double())
name = "convnext_step"
out[name] = step(fill(timm.models.convnext.ConvNeXt(depths=(1, 2, 1, 1), dims=(8, 16, 32, 64), num_classes=10)), name, det("input:" + name, (2, 3, 64, 64), 0, 4).double())
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "modern.json"), "w") as f:
    json.dump(out, f, indent=1)
