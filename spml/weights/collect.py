#!/usr/bin/env python3
"""Reads names, addresses, hashes and sizes of published weights out of the packages that publish them.

    pip download --no-deps torchvision==0.26.0 open_clip_torch==3.3.0 timm==1.0.31
    python3 spml/weights/collect.py *.whl > spml/weights/registry.json

Nothing is typed in: torchvision's and open_clip's file names carry the first eight digits of SHA-256, OpenAI's
addresses all 64. Files on Hugging Face's hub have no hash in the packages; their entries have none.
"""
import ast
import json
import re
import sys
import zipfile

# What gospml has: torchvision's builders and timm's architectures, by our name of the backbone.
BACKBONES = {
    "mobilenet_v2": "mobilenet_v2", "resnet18": "resnet18", "resnet34": "resnet34", "resnet50": "resnet50",
    "resnet101": "resnet101", "squeezenet1_0": "squeezenet1_0", "squeezenet1_1": "squeezenet1_1",
    "convnext_tiny": "convnext_tiny", "convnext_small": "convnext_small", "convnext_base": "convnext_base",
}
TIMM = {
    "vit_tiny_patch16_224": "vit_tiny_patch16", "vit_small_patch16_224": "vit_small_patch16",
    "vit_base_patch16_224": "vit_base_patch16",
}
OPENAI = {"RN50", "RN101", "RN50x4", "RN50x16", "RN50x64", "ViT-B/32", "ViT-B/16", "ViT-L/14", "ViT-L/14@336px"}
PARTIAL = re.compile(r"-([0-9a-f]{8})\.pth?$")


def value(node):
    """A literal, a call as its keyword arguments, or None."""
    if isinstance(node, ast.Call):
        return {k.arg: value(k.value) for k in node.keywords if k.arg}
    if isinstance(node, ast.Dict):
        return {k.value: value(v) for k, v in zip(node.keys, node.values) if isinstance(k, ast.Constant)}
    return node.value if isinstance(node, ast.Constant) else None


def torchvision(wheel, source):
    for path in sorted(wheel.namelist()):
        if not re.fullmatch(r"torchvision/models/[a-z0-9_]+\.py", path):
            continue
        for c in ast.parse(wheel.read(path)).body:
            if not (isinstance(c, ast.ClassDef) and c.name.endswith("_Weights")):
                continue
            backbone = BACKBONES.get(re.sub(r"_weights$", "", c.name.lower()))
            for s in c.body if backbone else []:
                if not (isinstance(s, ast.Assign) and isinstance(s.value, ast.Call)):
                    continue
                w = value(s.value)
                yield {
                    "name": f"{backbone}.{s.targets[0].id.lower()}", "network": backbone, "url": w["url"],
                    "sha256": PARTIAL.search(w["url"]).group(1), "megabytes": w["meta"]["_file_size"],
                    "licence": "BSD-3-Clause (torchvision); trained on ImageNet, which has terms of its own",
                    "source": f"{source}, {path}",
                }


def open_clip(wheel, source):
    path = "open_clip/pretrained.py"
    for s in ast.parse(wheel.read(path)).body:
        if not (isinstance(s, ast.Assign) and isinstance(s.value, ast.Call) and s.targets[0].id.startswith("_")):
            continue
        for tag, w in value(s.value).items():
            found = re.search(r"/clip/models/([0-9a-f]{64})/([^/]+)\.pt$", (w or {}).get("url") or "")
            if tag == "openai" and found:
                yield {
                    "name": "openai/" + found.group(2), "network": "clip", "url": w["url"], "sha256": found.group(1),
                    "licence": "MIT (OpenAI CLIP)", "source": f"{source}, {path}",
                }


def timm(wheel, source):
    path = "timm/models/vision_transformer.py"
    for node in ast.walk(ast.parse(wheel.read(path))):
        if not isinstance(node, ast.Dict):
            continue
        for k, v in zip(node.keys, node.values):
            name = k.value if isinstance(k, ast.Constant) and isinstance(k.value, str) else ""
            arch, _, tag = name.partition(".")
            if arch not in TIMM or not tag.startswith(("augreg", "dino")) or not isinstance(v, ast.Call):
                continue
            if not (value(v) or {}).get("hf_hub_id"):
                continue
            yield {
                "name": name, "network": TIMM[arch], "sha256": "", "licence": "Apache-2.0 (timm)",
                "url": f"https://huggingface.co/timm/{name}/resolve/main/model.safetensors",
                "source": f"{source}, {path}",
            }


def main():
    entries = []
    for file in sorted(sys.argv[1:]):
        package, version = re.match(r"(?:.*/)?([A-Za-z0-9_]+)-([0-9.]+)", file).groups()
        read = {"torchvision": torchvision, "open_clip_torch": open_clip, "timm": timm}[package]
        with zipfile.ZipFile(file) as wheel:
            entries += read(wheel, f"{package} {version}")
    entries.sort(key=lambda e: e["name"])
    json.dump(entries, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
