"""Full-size models with the goldens' deterministic fill in open_clip and here: parameter counts and outputs, in one run.
Run:  python check_full_size.py SPML [ViT-B/32 …]    (SPML: the command)"""
import json, subprocess, sys, tempfile, zlib
import numpy as np, torch, open_clip
torch.set_grad_enabled(False)
names = sys.argv[2:] or ["ViT-B/32", "ViT-B/16", "ViT-L/14@336px"]
arch = {"ViT-B/32": "ViT-B-32-quickgelu", "ViT-B/16": "ViT-B-16-quickgelu", "ViT-L/14": "ViT-L-14-quickgelu", "ViT-L/14@336px": "ViT-L-14-336-quickgelu", "RN50": "RN50-quickgelu", "RN101": "RN101-quickgelu"}


def unit(name, n):
    i = np.arange(n, dtype=np.uint64)
    h = (i * 2654435761 + zlib.crc32(name.encode())) & 0xffffffff
    h ^= h >> 15
    h = (h * 2246822519) & 0xffffffff
    h ^= h >> 13
    return (h >> 8).astype(np.float64) / 2 ** 24 - 0.5


def scale_of(key, shape):
    """Gains of norms around 1, matrices by their fan-in, so that nothing grows with depth."""
    parts = key.split(".")
    norm = len(parts) > 1 and (parts[-2].startswith(("ln_", "bn")) or "downsample.1" in key)
    if parts[-1] == "running_var" or parts[-1] == "weight" and norm:
        return 1.0, 0.2
    fan = int(np.prod(shape[1:])) if len(shape) > 1 else 1
    return 0.0, 2.0 / fan ** 0.5 if fan > 1 else 0.1


bad = 0
for name in names:
    m = open_clip.create_model(arch[name], pretrained=None).eval()
    params = sum(p.numel() for p in m.parameters())
    for k, t in m.state_dict().items():
        if t.is_floating_point() and k != "attn_mask":
            o, s = scale_of(k, t.shape)
            t.copy_(torch.from_numpy((o + s * unit(k, t.numel())).astype(np.float32)).view(t.shape))
    size = m.visual.image_size[0] if isinstance(m.visual.image_size, tuple) else m.visual.image_size
    x = torch.from_numpy((4 * unit("input", 3 * size * size)).astype(np.float32)).view(1, 3, size, size)
    ids = open_clip.get_tokenizer(arch[name])(["a photo of a dog."])
    image, text = m.encode_image(x), m.encode_text(ids)
    with tempfile.TemporaryDirectory() as d:
        from safetensors.torch import save_file, load_file
        save_file({k: v.contiguous() for k, v in m.state_dict().items() if k != "attn_mask"}, d + "/model.safetensors")
        save_file({"pixel_values": x, "input_ids": ids}, d + "/in.safetensors")
        del m
        subprocess.run([sys.argv[1], "clip", "encode", "--model", d + "/model.safetensors", "--inputs", d + "/in.safetensors", "--out", d + "/out.safetensors"], check=True, capture_output=True)
        info = json.loads(subprocess.run([sys.argv[1], "clip", "info", "--json", d + "/model.safetensors"], check=True, capture_output=True).stdout)
        y = load_file(d + "/out.safetensors")
    ok = info["parameters"] == params and all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in ((image, y["image_features"]), (text, y["text_features"])))
    bad += not ok
    print(name, "ok" if ok else "DIFFERS", "parameters", params, info["parameters"], "largest difference", float((image - y["image_features"]).abs().max()), float((text - y["text_features"]).abs().max()), "of", float(image.abs().max()))
sys.exit(bad)
