"""Makes towers.json: DINOv2 and SigLIP image towers of timm and Hugging Face at small sizes, keys, shapes and outputs.

    python towers.py

Tensors hold hashes of their names (the rule of golden_backbones.json): with one dimension and a name that ends in
.weight 1 +- 0.5, with more and a name that ends in weight +- sqrt(24 / fan in) / 2, all others +- 0.25. Images are
those of names "input:...", in [-2, 2]. Written with torch 2.11.0, timm 1.0.31, transformers 5.23.0.
"""
import json
import math
import os
import zlib

import numpy as np
import timm
import torch
import transformers
from timm.models.vision_transformer import VisionTransformer

torch.set_num_threads(1)


def det(name, shape, offset, scale):
    i = np.arange(math.prod(shape), dtype=np.uint64)
    h = (i * 2654435761 + zlib.crc32(name.encode())) & 0xFFFFFFFF
    h ^= h >> np.uint64(15)
    h = (h * 2246822519) & 0xFFFFFFFF
    h ^= h >> np.uint64(13)
    return torch.from_numpy(offset + scale * ((h >> np.uint64(8)) / 2**24 - 0.5)).reshape(shape)


def fill(model):
    with torch.no_grad():
        for name, t in model.state_dict().items():
            offset, scale = 0, 0.5
            if t.dim() == 1 and name.endswith(".weight"):
                offset, scale = 1, 1
            elif t.dim() > 1 and name.endswith("weight"):
                scale = math.sqrt(24 / math.prod(t.shape[1:]))
            t.copy_(det(name, tuple(t.shape), offset, scale).float().double())
    return model.double().eval()


def summary(t):
    v = t.detach().double().flatten()
    sums = {"sum": v.sum().item(), "sumsq": (v * v).sum().item(), "abs_max": v.abs().max().item()}
    return {"shape": list(t.shape), **sums, "first": v[:16].tolist()}


def case(name, model, size, tokens, features):
    shapes = {k: list(t.shape) for k, t in model.state_dict().items()}
    fill(model.double())
    x = det("input:" + name, (2, 3, size, size), 0, 4)
    with torch.no_grad():
        out = {"tokens": summary(tokens(model, x)), "features": summary(features(model, x))}
    return {"name": name, "shapes": shapes, "image": size, **out}


def main():
    small = {"patch_size": 14, "embed_dim": 48, "depth": 2, "num_heads": 3, "num_classes": 0}
    dino = lambda size, **k: VisionTransformer(img_size=size, init_values=1e-5, **small, **k)
    pooled = {"class_token": False, "global_pool": "map", "act_layer": "gelu_tanh"}
    siglip = lambda size, **k: VisionTransformer(img_size=size, **pooled, **small, **k)
    of_timm = (lambda m, x: m.forward_features(x), lambda m, x: m(x))
    of_dino = (lambda m, x: m(x).last_hidden_state, lambda m, x: m(x).last_hidden_state[:, 0])
    of_siglip = (lambda m, x: m(x).last_hidden_state, lambda m, x: m(x).pooler_output)
    sizes = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "patch_size": 14, "image_size": 56}
    siglip_sizes = transformers.SiglipVisionConfig(intermediate_size=192, **sizes)
    cases = [
        case("timm_dino", dino(56), 56, *of_timm),
        case("timm_dino_resized", dino(56, dynamic_img_size=True), 84, *of_timm),
        case("timm_siglip", siglip(56), 56, *of_timm),
        case("timm_siglip_resized", siglip(56, dynamic_img_size=True), 42, *of_timm),
        case("hf_dino", transformers.Dinov2Model(transformers.Dinov2Config(**sizes)), 56, *of_dino),
        case("hf_siglip", transformers.SiglipVisionModel(siglip_sizes), 56, *of_siglip),
    ]
    named = {}
    for name in [
        "vit_small_patch14_dinov2", "vit_base_patch14_dinov2", "vit_large_patch14_dinov2",
        "vit_base_patch16_siglip_224", "vit_large_patch16_siglip_256", "vit_so400m_patch14_siglip_224",
    ]:
        with torch.device("meta"):
            m = timm.create_model(name, num_classes=0)
        some = lambda k: k.startswith(("blocks.0.", "blocks.11.mlp.fc1")) or "blocks" not in k
        named[name] = {
            "shapes": {k: list(t.shape) for k, t in m.state_dict().items() if some(k)},
            "depth": len(m.blocks), "heads": m.blocks[0].attn.num_heads,
            "act": str(m.blocks[0].mlp.act), "mean": m.default_cfg["mean"][0],
        }
    versions = {"torch": torch.__version__, "timm": timm.__version__, "transformers": transformers.__version__}
    about = {"made_by": "towers.py", **versions}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "towers.json"), "w") as f:
        json.dump({"about": about, "cases": cases, "models_of_timm": named}, f, separators=(",", ":"))
        f.write("\n")


main()
