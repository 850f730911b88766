"""Writes gradients.safetensors: a tiny ViT CLIP of open_clip 3.3.0 with fixed values, inputs, the symmetric contrastive loss and all gradients (keys grad.NAME).
Run:  python make_gradients.py"""
import torch
from safetensors.torch import save_file
from open_clip.model import CLIP, CLIPVisionCfg, CLIPTextCfg

torch.manual_seed(5)
out, about = {}, {}
for name, quick, vision in (("vit", True, CLIPVisionCfg(image_size=24, patch_size=8, width=16, layers=2, head_width=8, mlp_ratio=4.0)),
                            ("gelu", False, CLIPVisionCfg(image_size=24, patch_size=8, width=16, layers=1, head_width=16, mlp_ratio=2.0)),
                            ("rn", True, CLIPVisionCfg(image_size=64, width=4, layers=(1, 1, 1, 1), head_width=32))):
    text = CLIPTextCfg(context_length=10, vocab_size=40, width=12, heads=2, layers=2)
    m = CLIP(embed_dim=8, vision_cfg=vision, text_cfg=text, quick_gelu=quick)
    with torch.no_grad():
        for k, p in m.named_parameters():
            if p.dim() > 1:
                p.copy_(torch.randn_like(p) * 0.3)
            elif k != "logit_scale":
                p.add_(torch.randn_like(p) * 0.1)
        for k, b in m.named_buffers():
            if "running_var" in k:
                b.uniform_(0.5, 1.5)
    m.eval()
    size = vision.image_size
    x = torch.randn(3, 3, size, size)
    ids = torch.tensor([[38, 3, 4, 39, 0, 0, 0, 0, 0, 0], [38, 7, 39, 0, 0, 0, 0, 0, 0, 0], [38, 1, 2, 3, 4, 5, 6, 7, 8, 39]])
    i, t, s = m(x, ids)
    logits = s * i @ t.T
    y = torch.arange(3)
    loss = (torch.nn.functional.cross_entropy(logits, y) + torch.nn.functional.cross_entropy(logits.T, y)) / 2
    loss.backward()
    out.update({f"{name}.pixel_values": x, f"{name}.input_ids": ids, f"{name}.loss": loss.detach()})
    for k, v in m.state_dict().items():
        out[f"{name}.param.{k}"] = v.clone()
    for k, p in m.named_parameters():
        out[f"{name}.grad.{k}"] = p.grad.clone()
save_file({k: v.contiguous() for k, v in out.items() if not k.endswith("attn_mask")}, "gradients.safetensors")
