"""Exports the tiny fixtures with `spml clip export` and reads them back with transformers and open_clip; compares with expected.safetensors.
Run:  python check_export.py SPML CLIP_TINY"""
import os, subprocess, sys, tempfile
import torch
from safetensors.torch import load_file
torch.set_grad_enabled(False)
spml, root = sys.argv[1:]
bad = 0


def close(name, want, got):
    global bad
    ok = torch.allclose(want, got, rtol=1e-4, atol=1e-5)
    bad += not ok
    print(name, "ok" if ok else f"DIFFERS by {(want - got).abs().max()}")


for model, form in (("hf_gelu_fp32", "hf"), ("hf_gelu_fp32", "open_clip"), ("hf_quickgelu_fp16", "hf"), ("hf_sharded_fp16", "open_clip"), ("open_clip_safetensors", "hf"), ("open_clip_safetensors", "open_clip"),
                    ("open_clip_bin", "hf"), ("open_clip_bin", "open_clip"), ("openai_vit/model.pt", "hf"), ("openai_vit/model.pt", "open_clip"), ("openai_rn/model.pt", "open_clip")):
    path = os.path.join(root, model)
    e = load_file(os.path.join(root, model.split("/")[0], "expected.safetensors"))
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "m")
        subprocess.run([spml, "clip", "export", path, "--to", form, "--out", out], check=True, capture_output=True)
        if form == "hf":
            from transformers import CLIPModel, CLIPTokenizer
            m, info = CLIPModel.from_pretrained(out, output_loading_info=True)
            m.eval()
            assert not info["missing_keys"] and not info["unexpected_keys"], info
            o = m(pixel_values=e["pixel_values"], input_ids=e["input_ids"])
            close(f"{model} -> hf images", e["image_features_normalised"], o.image_embeds)
            close(f"{model} -> hf texts", e["text_features_normalised"], o.text_embeds)
            close(f"{model} -> hf logits", e["logits_per_image"], o.logits_per_image)
            if os.path.exists(os.path.join(out, "vocab.json")):
                ids = CLIPTokenizer.from_pretrained(out)(["a photo of a dog."])["input_ids"][0]
                bad += ids != [49406, 320, 1125, 539, 320, 1929, 269, 49407]
        else:
            import open_clip
            m = open_clip.create_model("local-dir:" + out).eval()
            close(f"{model} -> open_clip images", e["image_features"], m.encode_image(e["pixel_values"]))
            close(f"{model} -> open_clip texts", e["text_features"], m.encode_text(e["input_ids"]))
sys.exit(1 if bad else 0)
