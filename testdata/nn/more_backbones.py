"""Writes more_backbones.json: models, classes, input shapes and training steps that golden_backbones.json has none of, in its form.

Needs torch 2.11, torchvision 0.26 and timm 1.0.31; float64 arithmetic on float32 weights. Run it in this folder.
"""
import hashlib
import json
import math
import zlib

import numpy as np
import timm
import torch
import torchvision


def det(name, shape, offset=0.0, scale=1.0):
    n = math.prod(shape)
    k = zlib.crc32(name.encode())
    h = (np.arange(n, dtype=np.uint64) * 2654435761 + k) & 0xFFFFFFFF
    h ^= h >> np.uint64(15)
    h = (h * 2246822519) & 0xFFFFFFFF
    h ^= h >> np.uint64(13)
    u = (h >> np.uint64(8)).astype(np.float64) / 2**24 - 0.5
    return torch.from_numpy(offset + scale * u).reshape(shape).float().double()


def fill(m):
    sd = {}
    for k, v in m.state_dict().items():
        if not v.dtype.is_floating_point:
            sd[k] = v
            continue
        offset, scale = 0.0, 0.5
        if k.endswith("running_var") or (v.dim() == 1 and k.endswith(".weight")):
            offset, scale = 1.0, 1.0
        elif v.dim() > 1 and k.endswith("weight"):
            scale = math.sqrt(24 / math.prod(v.shape[1:]))
        sd[k] = det(k, v.shape, offset, scale)
    m.load_state_dict(sd)


def number(x):
    return float(f"{float(x):.10g}")


def summary(t, n=8):
    t = t.detach()
    v = t.double().flatten()
    return {"shape": list(t.shape), "sum": number(v.sum()), "sumsq": number((v * v).sum()), "abs_max": number(v.abs().max()), "first": [number(x) for x in v[:n]]}


def state_dict(m, shapes):
    lines = sorted(f"{k} {'x'.join(map(str, v.shape))} {str(v.dtype).removeprefix('torch.')}\n" for k, v in m.float().state_dict().items())
    out = {"entries": len(lines), "parameters_and_buffers_float": sum(v.numel() for v in m.state_dict().values() if v.dtype.is_floating_point),
           "sha256_of_sorted_lines": hashlib.sha256("".join(lines).encode()).hexdigest(), "line_format": "name 1x2x3 dtype\\n, sorted by name"}
    if shapes:
        out["shapes"] = {k: list(v.shape) for k, v in m.state_dict().items()}
    m.double()
    return out


def case(name, m, shape, features, train=False):
    for d in m.modules():
        if isinstance(d, torch.nn.Dropout):
            d.p = 0.0
    out = {"name": name, "input": f"det('input:{name}',{list(shape)},scale 4)", "state_dict": state_dict(m, name.endswith("vit_b_16"))}
    m.double()
    fill(m)
    m.eval()
    x = det("input:" + name, shape, 0, 4)
    with torch.no_grad():
        y = m(x)
        out["eval_logits"] = {"summary": summary(y, 20), "row0_argsort_top5": y[0].argsort(descending=True)[:5].tolist(), "per_row_sum": [number(v) for v in y.sum(1)]}
        out["eval_features"] = {k: summary(f(x)) for k, f in features.items()}
    out["output_abs_max"] = number(y.abs().max())
    if train:
        m.train()
        y = m(x)
        loss = (y * det(f"input:{name}:grad", y.shape, 0, 2)).mean()
        loss.backward()
        norms, total = {}, 0.0
        for k, p in m.named_parameters():
            s = float((p.grad**2).sum())
            g = ".".join(k.split(".")[: 2 if k.startswith("features") else 1])
            norms[g] = norms.get(g, 0) + s
            total += s
        statistics = {}
        for k, v in m.named_buffers():
            s = summary(v.reshape(-1), 3)
            statistics[k] = int(v) if v.dim() == 0 else {n: s[n] for n in ("sum", "sumsq", "first")}
        out["train"] = {"what": f"train mode, dropout and stochastic depth off; loss = mean(logits*g), g=det('input:{name}:grad', scale 2)", "loss": number(loss.detach()),
                        "logits": summary(y, 12), "gradient_norm_per_group": {k: number(math.sqrt(v)) for k, v in norms.items()}, "gradient_norm_total": number(math.sqrt(total)),
                        "running_statistics": statistics}
        m.eval()
        with torch.no_grad():
            out["train"]["eval_logits_after_statistics_update"] = summary(m(x), 12)
    return out


def main():
    tv = torchvision.models
    models = []
    m = tv.mobilenet_v2(num_classes=7)
    models.append(case("torchvision/mobilenet_v2", m, (3, 3, 96, 64), {"map": m.features, "pooled": lambda x, m=m: m.features(x).mean((2, 3))}, True))
    m = tv.squeezenet1_1(num_classes=6)
    models.append(case("torchvision/squeezenet1_1", m, (2, 3, 64, 80), {"map": m.features}, True))
    m = tv.resnet34(num_classes=3)
    models.append(case("torchvision/resnet34", m, (1, 3, 64, 96), {}))
    m = tv.vision_transformer.VisionTransformer(image_size=96, patch_size=16, num_layers=12, num_heads=12, hidden_dim=768, mlp_dim=3072, num_classes=4)
    models.append(case("torchvision/vit_b_16", m, (1, 3, 96, 96), {}))
    m = timm.create_model("vit_small_patch16_224", img_size=64, num_classes=9)
    models.append(case("timm/vit_small_patch16", m, (2, 3, 64, 64), {"tokens": m.forward_features}, True))
    m = tv.convnext_tiny(num_classes=5, stochastic_depth_prob=0.0)
    models.append(case("torchvision/convnext_tiny", m, (2, 3, 64, 96), {"map": m.features}, True))
    m = timm.create_model("resnet18", num_classes=8)
    models.append(case("timm/resnet18", m, (2, 3, 64, 64), {"layer4_map": m.forward_features}))
    lists = {f"torchvision/{n}_1000": state_dict(getattr(tv, n)(), False) for n in ("resnet18", "squeezenet1_0", "vit_b_32", "convnext_base", "resnet152")}
    fill_rule = """offset 1, scale 1 for one-dimensional norm gains and running_var; running_mean, biases, gamma, tokens and position tables scale 0.5;
    every weight with two or more dimensions scale sqrt(24/fan_in), fan_in = product of all dimensions but the first. Values in float64, then float32."""
    with open("more_backbones.json", "w") as f:
        json.dump({"about": {"torch": torch.__version__, "torchvision": torchvision.__version__, "timm": timm.__version__}, "fill": fill_rule, "models": models, "key_lists_of_full_models": lists}, f)
        f.write("\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
