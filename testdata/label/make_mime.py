"""Writes mime.json: training steps of MIME and of SMILE's image form on small drawn inputs, made by the released
program of MIME (palm-biaoliu/mime @ 06e15de), which is called, not copied: its networks, losses, training phase and
pass that raises labels, in float64 and without dropout.

    python testdata/label/make_mime.py FOLDER      # a clone of that repository; wants torch, torchvision, scikit-learn

What the program draws is written down. It has no training phase for SMILE: its network and loss take plain steps here.
"""

import importlib
import json
import math
import os
import sys
import tempfile
from types import SimpleNamespace
from unittest import mock
import zlib

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
N, BATCH, C, D, LATENT, FFN, H, W, LR = 12, 4, 5, 8, 3, 32, 2, 3, 0.01


def det(name, shape, scale, offset=0.0):
    i = np.arange(int(np.prod(shape)), dtype=np.uint64)
    m = np.uint64(0xFFFFFFFF)
    h = (i * np.uint64(2654435761) + np.uint64(zlib.crc32(name.encode()))) & m
    h ^= h >> np.uint64(15)
    h = (h * np.uint64(2246822519)) & m
    h ^= h >> np.uint64(13)
    return torch.tensor(offset + scale * ((h >> np.uint64(8)).astype(np.float64) / 2**24 - 0.5)).reshape(list(shape))


class Body(torch.nn.Module):
    """In the backbone's place: one trained 1x1 convolution, then the program's position code, here in float64."""

    num_channels = D

    def __init__(self, code):
        super().__init__()
        self.conv, self.code = torch.nn.Conv2d(3, D, 1), code

    def forward(self, x):
        x = self.conv(x)
        return [x], [self.code(x)]


def network(kind, released):
    with mock.patch.object(torch, "float32", torch.float64):
        code = released.backbone.PositionEmbeddingSine(D // 2, normalize=True, maxH=H, maxW=W)
    encoder = released.encoder.Encoder(d_model=D, nhead=4, dim_feedforward=FFN, dropout=0.0)
    m = kind(Body(code), encoder, C, LATENT)
    m.input_proj = torch.nn.Identity()  # as build_LEModel_VIB does
    with torch.no_grad():
        for name, p in m.named_parameters():
            gain = p.dim() == 1 and name.endswith("weight")
            p.copy_(det(name, p.shape, 1, 1.0 if gain else 0.0))
    # As initialize_training_run does: the body at the rate, all else at ten times the rate.
    body = list(m.backbone.parameters())
    rest = [p for n, p in m.named_parameters() if not n.startswith("backbone.")]
    return m, torch.optim.Adamax([{"params": body, "lr": LR}, {"params": rest, "lr": 10 * LR}], LR)


def observed(name):
    y = torch.zeros(N, C)
    y[torch.arange(N), det(name, [N], C, C / 2).long()] = 1
    return y


def probes(m):
    """Of every trained tensor a sum with drawn weights, and the sum of squares."""
    probe = lambda n, p: (p * det(n + ":probe", p.shape, 2)).sum().item()
    return {n: [probe(n, p), (p * p).sum().item()] for n, p in m.named_parameters()}


class Drawn:
    """Writes down the normal numbers that the program draws: the mean of the ten draws of each latent."""

    def __init__(self):
        self.means = []
        self.draw = torch.distributions.normal._standard_normal

    def __call__(self, shape, dtype, device):
        x = self.draw(shape, dtype, device)
        self.means.append(x.mean(0))
        return x

    def take(self):
        last, self.means = self.means, []
        assert len(last) == 1
        return last[0].tolist()


def mime(released, name, seed, temperature, beta, theta, warmup, epochs):
    torch.manual_seed(seed)
    g = np.random.RandomState(seed)
    m, optimizer = network(released.models.LEModel_VIB, released)
    images = det("images:" + name, [N, 3, H, W], 4)
    data = SimpleNamespace(label_matrix_obs=observed("labels:" + name).numpy())
    drawn, now = Drawn(), []

    def batches():
        order = g.permutation(N)
        for rows in order.reshape(-1, BATCH):
            now.append({"rows": rows.tolist()})
            labels = torch.tensor(data.label_matrix_obs[rows])
            yield {"image": images[rows], "label_vec_obs": labels, "idx": torch.tensor(rows)}

    def seen(_, __, out):
        now[-1].update(noise=drawn.take(), logits=out[0].tolist())

    class Logger:
        def update_phase_data(self, batch):
            now[-1].update(loss=float(batch["loss_np"]), kl=float(batch["reg_loss_np"]))

    class Loader:
        def __iter__(self):
            return batches()

        def __len__(self):
            return N // BATCH

    p = {"loss": "VIB", "T": temperature, "beta": beta, "theta": theta}
    z = {"dataloaders": {"train": Loader()}, "datasets": {"train": data}, "device": "cpu", "optimizer": optimizer}
    m.register_forward_hook(seen)
    result = {
        "name": name, "temperature": temperature, "beta": beta, "theta": theta, "warmup": warmup,
        "observed": observed("labels:" + name).int().tolist(), "epochs": [],
    }
    with mock.patch("torch.distributions.normal._standard_normal", drawn):
        for epoch in range(1, epochs + 1):
            released.program.run_train_phase(m, p, z, Logger(), epoch, "train")
            steps, now = now, []
            if epoch >= warmup:  # as train does
                released.program.set_pseudo_labeling(m, p, z, None, epoch, "train")
            scoring, now = now, []
            labels = data.label_matrix_obs.astype(int).tolist()
            result["epochs"].append({"steps": steps, "scoring": scoring, "labels": labels})
    result["last"] = probes(m)
    return result


def smile(released, name, seed, theta, alpha, beta):
    m, optimizer = network(released.models.LEModel_smile, released)
    torch.manual_seed(seed)
    images, y = det("images:" + name, [N, 3, H, W], 4), observed("labels:" + name)
    p, steps = {"theta": theta, "alpha": alpha, "beta": beta}, []
    for rows in np.random.RandomState(seed).permutation(N).reshape(-1, BATCH):
        optimizer.zero_grad()
        logits, d, mean, std, a, b = m(images[rows])
        batch = {"preds": torch.sigmoid(logits), "label_vec_obs": y[rows], "mus": mean, "stds": std, "distributions": d}
        batch = released.losses.loss_smile(batch | {"alphas": a, "betas": b}, p, {})
        batch["loss_tensor"].backward()
        optimizer.step()
        steps.append({
            "rows": rows.tolist(), "logits": logits.tolist(), "alpha": a.tolist(), "drawn": d.tolist(),
            "loss": batch["loss_tensor"].item(),
        })
    return {
        "name": name, "seed": seed, "theta": theta, "alpha": alpha, "beta": beta, "observed": y.int().tolist(),
        "steps": steps, "last": probes(m),
    }


def rounded(v):
    if isinstance(v, float):
        assert math.isfinite(v)
        return float(f"{v:.13g}")
    if isinstance(v, dict):
        return {k: rounded(x) for k, x in v.items()}
    return [rounded(x) for x in v] if isinstance(v, list) else v


if __name__ == "__main__":
    sys.path.insert(0, os.path.abspath(sys.argv[1]))
    path, out = os.path.abspath(os.path.join(os.path.dirname(__file__), "mime.json")), sys.stdout
    sys.argv = ["train_mime.py"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # the program writes a log where it starts
        program = importlib.import_module("train_mime")
        os.chdir("/")
    sys.stdout = out  # which the program points elsewhere
    part = importlib.import_module
    released = SimpleNamespace(
        program=program, losses=part("utils.losses"), models=part("lib_lagc.models.LEModel"),
        encoder=part("lib_lagc.models.encoder"), backbone=part("lib_lagc.models.backbone"),
    )
    numbers = {
        "torch": torch.__version__, "source": "palm-biaoliu/mime @ 06e15de", "batch": BATCH, "classes": C, "dim": D,
        "latent": LATENT,
        "map": [H, W], "lr": LR, "log_eps": released.losses.LOG_EPSILON,
        "mime": [
            mime(released, "early", 3, 1, 1e-4, 0.3, 1, 3),
            mime(released, "warm, T 2, strong divergence", 5, 2, 0.5, 0.25, 2, 3),
            mime(released, "never", 7, 0.5, 0.01, 0.999999, 1, 2),
        ],
        "smile": [smile(released, "even", 41, 1, 1, 1), smile(released, "weighted", 42, 2, 0.5, 0.1)],
    }
    with open(path, "w") as f:
        json.dump(rounded(numbers), f, separators=(",", ":"))
        f.write("\n")
