"""Writes sharded/ with huggingface_hub 2.4 and PyTorch 2.11: python make_sharded.py."""

import pathlib

import huggingface_hub
import torch

here = pathlib.Path(__file__).parent / "sharded"
here.mkdir(exist_ok=True)
g = torch.Generator().manual_seed(0)
sizes = [10, 300, 20, 30, 25, 25, 50, 0, 7, 60]
state = {f"layer.{9 - i}.<w>&ü": torch.randint(0, 255, (n,), dtype=torch.uint8, generator=g) for i, n in enumerate(sizes)}
huggingface_hub.save_torch_state_dict(state, here, max_shard_size=75, safe_serialization=True)
