"""Writes mobilenet_v2_timm.tsv: torchvision's keys of MobileNetV2 and timm's, pair by pair.

The pairs follow the order of the two state dicts; that they are right is shown by equal logits of both models with the same tensors.
Needs torch, torchvision and timm: python mobilenet_v2_timm.py > mobilenet_v2_timm.tsv
"""
import timm
import torch
import torchvision

torch.manual_seed(3)
ours = torchvision.models.mobilenet_v2(num_classes=7).eval()
for name, t in ours.state_dict().items():  # so that no two modules are alike
    if t.dtype.is_floating_point and t.dim() == 1:
        t.copy_(torch.rand_like(t) + 0.5)
theirs = timm.create_model("mobilenetv2_100", num_classes=7).eval()
pairs = list(zip(ours.state_dict(), theirs.state_dict()))
assert len(ours.state_dict()) == len(theirs.state_dict()) == len(pairs)
theirs.load_state_dict({b: ours.state_dict()[a] for a, b in pairs}, strict=True)
x = torch.randn(2, 3, 64, 64)
with torch.no_grad():
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)
for a, b in pairs:
    print(a, b, sep="\t")
