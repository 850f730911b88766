"""Writes smile.json: steps of SMILE's tabular label enhancement, in float64, from the formulas of its released program
(palm-ml/smile @ 8feb9b8: train_smile2.py, spl_models.py, gen_adj.py; the graph convolution is DGL's with norm "both").

    python testdata/label/make_smile.py        # wants torch and numpy

The program itself, run on the same inputs, gave these numbers; it is not part of this repository.
"""

import json
import os

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
N, FEATURES, C, K, BATCH, LR, EPS = 14, 5, 4, 3, 4, 0.01, 1e-5


def neg_log(x):
    return -torch.log(x + EPS)


def an(p, y):
    """Assume negative: unknown labels count as absent."""
    return torch.where(y == 1, neg_log(p), neg_log(1 - p)).mean()


def graph(x):
    """A[i, j] = 1 where j is one of the K nearest others of i."""
    d = ((x[:, None] - x[None]) ** 2).sum(2)
    d.fill_diagonal_(float("inf"))
    a = torch.zeros(N, N)
    a.scatter_(1, d.topk(K, largest=False).indices, 1)
    return a


def conv(a, h, w, b):
    """DGL's GraphConv, norm "both": sums over edges i -> j, by the roots of the out-degree of i, in-degree of j."""
    out, into = a.sum(1).clamp(min=1).sqrt(), a.sum(0).clamp(min=1).sqrt()
    return (a.T @ (h / out[:, None])) / into[:, None] @ w.T + b


def beta_kl(d):
    """What the program calls the divergence of Beta(d, 1-d) and Beta(1, 1)."""
    a, b = d + 1e-6, 1 - d + 1e-6
    return (torch.lgamma(a) + torch.lgamma(b) + (a - 1) * torch.digamma(a) + (b - 1) * torch.digamma(b)).mean()


def run(name, seed, p, mu, bias, rate, gamma, delta, t):
    g = np.random.RandomState(seed)
    draw = lambda *shape: torch.tensor(np.round(g.randn(*shape), 6))
    x = draw(N, FEATURES)
    y = torch.zeros(N, C)
    y[torch.arange(N), torch.tensor(g.randint(C, size=N))] = 1
    shapes = {
        "conv1.weight": (C, FEATURES),
        "conv1.bias": (C,),
        "conv2.weight": (C, C),
        "conv2.bias": (C,),
        "head.weight": (C, C),
        "head.bias": (C,),
        "hidden.in.weight": (C, FEATURES + C),
        "hidden.in.bias": (C,),
        "hidden.out.weight": (C, C),
        "hidden.out.bias": (C,),
        "decoder.in.weight": (FEATURES, 2 * C),
        "decoder.in.bias": (FEATURES,),
        "decoder.out.weight": (FEATURES, FEATURES),
        "decoder.out.bias": (FEATURES,),
    }
    first = {k: 0.3 * draw(*s) for k, s in shapes.items()}
    classifier = {
        "in.weight": 0.3 * draw(C, FEATURES),
        "in.bias": 0.3 * draw(C),
        "out.weight": 0.3 * draw(C, C),
        "out.bias": 0.3 * draw(C),
    }
    w = {k: v.clone().requires_grad_() for k, v in first.items()}
    f = {k: v.clone().requires_grad_() for k, v in classifier.items()}
    optimizer = torch.optim.Adam(w.values(), LR)
    optimizer_f = torch.optim.Adam(f.values(), LR)
    a = graph(x)
    torch.manual_seed(seed)
    order, steps = [int(i) for i in g.permutation(N)], []
    for at in range(0, 3 * BATCH, BATCH):
        rows = order[at : at + BATCH]
        bx, by = x[rows], y[rows]
        score = torch.sigmoid(
            (F.relu(bx @ f["in.weight"].T + f["in.bias"]) @ f["out.weight"].T + f["out.bias"]) / t
        )
        h = torch.relu(conv(a, x, w["conv1.weight"], w["conv1.bias"]))
        v = conv(a, h, w["conv2.weight"], w["conv2.bias"]) @ w["head.weight"].T + w["head.bias"]
        d = torch.sigmoid(v[rows] / t)
        hidden = (
            F.relu(torch.cat((bx, d), 1) @ w["hidden.in.weight"].T + w["hidden.in.bias"])
            @ w["hidden.out.weight"].T
            + w["hidden.out.bias"]
        )
        rec_y = torch.distributions.Beta(d + 1e-5, 1 - d + 1e-5).rsample()
        rec_x = (
            F.relu(torch.cat((d, hidden), 1) @ w["decoder.in.weight"].T + w["decoder.in.bias"])
            @ w["decoder.out.weight"].T
            + w["decoder.out.bias"]
        )
        rec_a = rec_y @ rec_y.T
        prior = torch.where(by == 1, by, torch.full_like(by, p))
        target = (mu * d + (1 - mu) * prior).detach()
        terms = target * neg_log(score) + (1 - target) * neg_log(1 - score)
        classify = torch.where(by == 1, terms, terms / (C - 1) if bias else terms * rate).mean()
        encode = (
            an(d, by)
            + gamma * (F.mse_loss(rec_x, bx) + an(rec_y, by) + F.mse_loss(rec_a, a[rows][:, rows]))
            + delta * beta_kl(d)
        )
        optimizer_f.zero_grad()
        classify.backward()
        optimizer_f.step()
        optimizer.zero_grad()
        encode.backward()
        optimizer.step()
        steps.append(
            {
                "rows": rows,
                "enhanced": d.tolist(),
                "drawn": rec_y.tolist(),
                "classifier": classify.item(),
                "encoder": encode.item(),
            }
        )
    return {
        "name": name,
        "seed": seed,
        "p": p,
        "mu": mu,
        "bias": bias,
        "rate": rate,
        "gamma": gamma,
        "delta": delta,
        "temperature": t,
        "lr": LR,
        "log_eps": EPS,
        "x": x.tolist(),
        "observed": y.int().tolist(),
        "first": {k: v.tolist() for k, v in first.items()},
        "classifier_first": {k: v.tolist() for k, v in classifier.items()},
        "steps": steps,
        "last": {k: v.tolist() for k, v in w.items()},
        "classifier_last": {k: v.tolist() for k, v in f.items()},
    }


if __name__ == "__main__":
    cases = [
        run("yeast", 3, 0.05, 0.5, 0, 0.1, 0.001, 1, 1),
        run("bias", 5, 0.01, 0.3, 1, 1, 0.5, 0.1, 1),
        run("temperature", 8, 0.1, 0.9, 1, 1, 0.1, 0.01, 2),
    ]
    path = os.path.join(os.path.dirname(__file__), "smile.json")
    with open(path, "w") as out:
        json.dump({"torch": torch.__version__, "cases": cases}, out, separators=(",", ":"))
        out.write("\n")
