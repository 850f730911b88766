"""Writes poly_an.json: PolyLoss on assumed negatives and its gradient by PyTorch's autograd, in float64."""
import json
import torch
import torch.nn.functional as F

cases = []
for B, C, eps in ((2, 4, 1.0), (3, 5, -0.5), (4, 7, 2.0)):
    g = torch.Generator().manual_seed(B)
    z = (torch.rand(B, C, generator=g, dtype=torch.float64) * 8 - 4).round(decimals=3).requires_grad_()
    y = torch.zeros(B, C, dtype=torch.float64)
    y[torch.arange(B), torch.randint(0, C, (B,), generator=g)] = 1
    p = torch.sigmoid(z)
    pt = torch.where(y == 1, p, 1 - p)  # probability of the assumed label
    loss = (F.binary_cross_entropy_with_logits(z, y, reduction="none") + eps * (1 - pt)).mean()
    loss.backward()
    cases.append({"id": f"poly_an/exact/{B}x{C}", "hyperparameters": {"epsilon": eps},
                  "inputs": {"logits": z.tolist(), "obs": y.tolist()},
                  "expected": {"loss": loss.item(), "grad_logits": z.grad.tolist()}})
json.dump({"format": "spml-golden-losses-1", "cases": cases}, open("poly_an.json", "w"), indent=1)
