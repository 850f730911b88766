"""Writes scripted.pt, traced.pt and expected.json with PyTorch 2.11: python make.py."""

import json
import pathlib
from typing import Dict, List, Optional, Tuple

import torch

here = pathlib.Path(__file__).parent
torch.manual_seed(0)


class Everything(torch.nn.Module):
    """Methods that take and give every kind of value."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.drop = torch.nn.Dropout(0.5)
        self.register_buffer("calls", torch.tensor([1.5]))

    def forward(self, x):
        return self.drop(torch.relu(self.linear(x))) + self.calls

    @torch.jit.export
    def values(self, a: int, b: float, c: bool, d: str, e: Optional[torch.Tensor]) -> Tuple[int, float, bool, str, Optional[torch.Tensor]]:
        return a * 2, b / 2, not c, d + "!", e

    @torch.jit.export
    def containers(self, xs: List[torch.Tensor], ns: List[int], table: Dict[str, float]) -> Dict[str, List[torch.Tensor]]:
        total = 0
        for n in ns:
            total += n
        return {"scaled": [x * total for x in xs], "table": [torch.tensor(v) for v in table.values()]}

    @torch.jit.export
    def nested(self, pair: Tuple[torch.Tensor, List[Tuple[int, str]]]) -> List[Tuple[str, int]]:
        return [(s, n + int(pair[0].sum())) for n, s in pair[1]]

    @torch.jit.export
    def fails(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            raise ValueError("the sum is positive")
        return x


m = torch.jit.script(Everything()).eval()
m.save(str(here / "scripted.pt"))
x = torch.randn(4, 3)
conv = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 3)).eval()
image = torch.randn(2, 1, 4, 4)
torch.jit.trace(conv, image).save(str(here / "traced.pt"))
xg = x.clone().requires_grad_()
m(xg).pow(2).sum().backward()
json.dump({
    "x": x.flatten().tolist(), "forward": m(x).detach().flatten().tolist(), "gradient": xg.grad.flatten().tolist(),
    "weight_gradient": m.linear.weight.grad.flatten().tolist(),
    "image": image.flatten().tolist(), "traced": conv(image).detach().flatten().tolist(),
    "state": {k: v.flatten().tolist() for k, v in m.state_dict().items()},
}, open(here / "expected.json", "w"))
