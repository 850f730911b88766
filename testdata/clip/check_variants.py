"""Encodes make_variants.py's models with `spml clip encode` and compares. Run: python check_variants.py SPML OUT [NAME …]"""
import os, subprocess, sys, tempfile
import torch
from safetensors.torch import load_file, save_file
spml, root, only = sys.argv[1], sys.argv[2], sys.argv[3:]
bad = 0
for name in sorted(os.listdir(root)):
    if only and name not in only: continue
    d = os.path.join(root, name)
    e = load_file(d + "/expected.safetensors")
    o = tempfile.mkdtemp()
    for part, keys in (("", ["pixel_values", "input_ids"]), ("other.", ["other.pixel_values"])):
        ins = {k.replace("other.", ""): e[k] for k in keys if k in e}
        if not ins: continue
        save_file(ins, o + "/in.safetensors")
        if os.path.exists(o + "/out.safetensors"): os.remove(o + "/out.safetensors")
        extra = [] if part else ["--patch-tokens"]
        r = subprocess.run([spml, "clip", "encode", "--model", d, "--inputs", o + "/in.safetensors", "--out", o + "/out.safetensors"] + extra, capture_output=True, text=True)
        if r.returncode:
            bad += 1; print(name, part, "FAILS", r.stderr.strip().split("\n")[-1][:300]); continue
        y = load_file(o + "/out.safetensors")
        for k in ("image_features", "text_features", "logits_per_image", "patch_tokens"):
            if part + k not in e: continue
            if k not in y: bad += 1; print(name, part + k, "MISSING"); continue
            w, g = e[part + k], y[k]
            if w.shape != g.shape: bad += 1; print(name, part + k, "SHAPE", tuple(w.shape), tuple(g.shape)); continue
            if not torch.allclose(g, w, rtol=1e-4, atol=1e-5): bad += 1; print(name, part + k, "DIFFERS", float((w - g).abs().max()), "of", float(w.abs().max()))
print("different or refused:", bad)
sys.exit(bad > 0)
