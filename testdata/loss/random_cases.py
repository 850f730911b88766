"""Writes random_cases.json: losses with random shapes and hyper-parameters, straight from their formulas by PyTorch's autograd.

    python random_cases.py > random_cases.json      (torch 2.11, float64; any version gives these numbers to 1e-12)
"""
import json
import random
import sys

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
random.seed(5)
torch.manual_seed(5)
uniform = random.uniform
cases = []


def sn(z):
    return -F.logsigmoid(z)


def sp(z):
    return -F.logsigmoid(-z)


def entropy(z):
    return torch.sigmoid(z) * sn(z) + torch.sigmoid(-z) * sp(z)


def reduce(t, how):
    return t.sum() if how == "sum" else t.sum() / t.shape[0] if how == "batch" else t.mean()


def count(z, k):
    return ((torch.sigmoid(z).sum() / z.shape[0] - k) / z.shape[1]) ** 2


def add(method, n, hyper, inputs, f, leaves=("logits",), suffix=""):
    x = {k: torch.tensor(inputs[k], requires_grad=True) for k in leaves}
    v = f(*[x[k] for k in leaves])
    v.backward()
    expected = {"loss": v.item(), **{"grad_" + k: x[k].grad.tolist() for k in leaves}}
    cases.append({"id": f"{method}/random/{n}{suffix}", "method": method, "variant": "random", "case": f"{n}{suffix}",
                  "hyperparameters": hyper, "inputs": inputs, "expected": expected})


def draw(n):
    B, C = random.choice([(1, 1), (3, 5), (6, 11), (2, 30)])
    z, zs, u = torch.randn(B, C) * 3, torch.randn(B, C) * 2, torch.randn(B, C) * 2
    y, l = torch.zeros(B, C), torch.randint(-1, 2, (B, C)).double()
    for i in range(B):
        if random.random() < 0.85:
            y[i, random.randrange(C)] = 1
    base = {"logits": z.tolist(), "obs": y.tolist()}
    how = random.choice(["mean", "sum", "batch"])

    gamma, alpha = uniform(0, 4), uniform(0, 1)

    def focal(z):
        p = torch.sigmoid(z)
        return reduce(alpha * y * (1 - p) ** gamma * sn(z) + (1 - alpha) * (1 - y) * p**gamma * sp(z), how)

    add("focal", n, {"alpha": alpha, "gamma": gamma, "detach_weight": False, "reduction": how}, base, focal)

    gp, gn, m = random.choice([0, uniform(0, 3)]), random.choice([0, uniform(0.2, 4)]), random.choice([0, uniform(0.01, 0.4)])
    detach, clamp = random.random() < 0.5, random.choice([0, 1e-8])

    def asl(z):
        p = torch.sigmoid(z)
        pm = (p - m).clamp(min=0)
        lp = torch.log(p.clamp(min=clamp)) if clamp else -sn(z)
        ln = torch.log((1 - p + m).clamp(max=1).clamp(min=clamp))
        wp = (1 - p) ** gp
        wn = torch.where(pm > 0, torch.where(pm > 0, pm, torch.ones_like(pm)) ** gn, torch.zeros_like(pm)) if gn else torch.ones_like(pm)
        if detach:
            wp, wn = wp.detach(), wn.detach()
        return reduce(-(y * wp * lp + (1 - y) * wn * ln), how)

    add("asl", n, {"gamma_pos": gp, "gamma_neg": gn, "margin": m, "detach_weight": detach, "clamp": clamp, "reduction": how}, base, asl)

    lam, margin, g = uniform(1, 2), uniform(0, 2), uniform(0, 3)

    def focal_positive(z):
        return (1 - torch.sigmoid(z)) ** g * sn(z)

    add("hill", n, {"lam": lam, "margin": margin, "gamma": g, "reduction": how}, base,
        lambda z: reduce(y * focal_positive(z - margin) + (1 - y) * (lam - torch.sigmoid(z)) * torch.sigmoid(z) ** 2, how))

    tau, epoch, change = uniform(0.3, 0.8), random.randint(0, 3), random.randint(0, 3)
    corrected, neg = random.choice([0, uniform(0, 1)]), random.choice(["focal", "hill"])

    def splc(z):
        p = torch.sigmoid(z)
        c = ((p > tau) & (y == 0)).double() if epoch >= change else torch.zeros_like(y)
        negative = p**g * sp(z) if neg == "focal" else (lam - p) * p**2
        return reduce(y * focal_positive(z - margin) + (1 - y) * (c * focal_positive(z - corrected) + (1 - c) * negative), how)

    add("splc", n, {"tau": tau, "margin": margin, "gamma": g, "lam": lam, "epoch": epoch, "change_epoch": change,
                    "corrected_margin": corrected, "neg": neg, "reduction": how}, base, splc)

    a, b, gneg, rho = uniform(0, 1), uniform(0, 1), random.choice([None, uniform(0.1, 1)]), uniform(0.5, 0.99)

    def vlpl(z):
        pos, negative = b * (rho * sn(z) + (1 - rho) * sp(z)), (gneg or 0) * (rho * sp(z) + (1 - rho) * sn(z))
        return torch.where(y == 1, sn(z), torch.where(l == 1, pos, torch.where(l == -1, negative, -a * entropy(z)))).mean()

    add("vlpl", n, {"alpha": a, "beta_pos": b, "gamma_neg": gneg, "rho": rho, "eps": 0.0}, {**base, "pl": l.tolist()}, vlpl)

    q1, q2, q3 = random.choice([0, uniform(0, 1)]), uniform(0.01, 1), uniform(0.1, 2)
    w, bias, mu, sigma = uniform(-2, 10), uniform(-8, 2), uniform(0.2, 0.9), uniform(0.3, 2)
    point = {"w": w, "b": bias, "mu": mu, "sigma": sigma}

    def curves(z):
        p = torch.sigmoid(z).detach()
        return torch.sigmoid(w * p + bias), torch.exp(-((p - mu) ** 2) / (2 * sigma**2))

    def unknown(z):
        k, v = curves(z)
        p = torch.sigmoid(z)
        return v * (k * (1 - p**q2) / q2 + (1 - k) * (1 - (1 - p) ** q3) / q3)

    def gr(z):
        p = torch.sigmoid(z)
        return reduce(y * ((1 - p**q1) / q1 if q1 else -torch.log(p + 1e-7)) + (1 - y) * unknown(z), how)

    add("gr", n, {"q1": q1, "q2": q2, "q3": q3, **point, "eps": 1e-7, "reduction": how}, base, gr)

    lo, hi = sorted([uniform(0, 1), uniform(0, 1)])
    eta, k = uniform(0, 1), uniform(0.5, 5)

    def gpr(z):
        _, v = curves(z)
        t = torch.where(l == 1, (1 - v).clamp(lo, hi) * (rho * sn(z) + (1 - rho) * sp(z)), torch.where(l == -1, v * sp(z), unknown(z)))
        return torch.where(y == 1, sn(z), t).mean() + eta * count(z, k)

    add("gpr", n, {"q2": q2, "q3": q3, **point, "lam_lo": lo, "lam_hi": hi, "rho": rho, "eta": eta, "m_pos": k, "eps": 0.0},
        {**base, "pl": l.tolist()}, gpr)

    def role(z, u):
        def half(z, t):
            return (y * sn(z) + t * sn(z) + (1 - t) * sp(z)).mean() + count(z, k)
        return (half(z, torch.sigmoid(u).detach()) + half(u, torch.sigmoid(z).detach())) / 2

    add("role", n, {"k": k, "eps": 0.0}, {**base, "estimator_logits": u.tolist()}, role, ("logits", "estimator_logits"))
    add("epr", n, {"k": k, "eps": 1e-5}, base, lambda z: (y * -torch.log(torch.sigmoid(z) + 1e-5)).mean() + count(z, k))

    Y = torch.where(y == 1, y, torch.where(torch.rand(B, C) < 0.5, -torch.rand(B, C), torch.zeros(B, C)))
    add("em_apl", n, {"alpha": a, "beta": b, "eps": 0.0}, {"logits": z.tolist(), "labels": Y.tolist()},
        lambda z: torch.where(Y == 1, sn(z), torch.where(Y < 0, b * (-Y * sn(z) + (1 + Y) * sp(z)), -a * entropy(z))).mean())

    for scheme in ("LL-R", "LL-Ct", "LL-Cp"):
        top = random.randint(0, B * C)

        def large(z):
            kept, flipped = y * sn(z) + (1 - y) * sp(z), y * sp(z) + (1 - y) * sn(z)
            free = sorted((-kept.flatten()[i].item(), i) for i in range(B * C) if y.flatten()[i] == 0)
            mask = torch.zeros(B * C)
            for _, i in free[:top]:
                mask[i] = 1
            mask = mask.view(B, C)
            return ((1 - mask) * kept + mask * (0 if scheme == "LL-R" else flipped)).mean()

        add("large_loss", n, {"scheme": scheme, "k": top, "semantics": "recommended"}, base, large, suffix=scheme)

    delta, weight = uniform(0.5, 0.95), uniform(0.1, 2)

    def plc(zw, zs):
        s = torch.sigmoid(zw).detach() + y
        h = (s >= delta).double()
        mask = ((s >= delta) | (s < 1 - delta)).double()
        return (y * sn(zw) + (1 - y) * sp(zw)).mean() + weight * (mask * (h * sn(zs) + (1 - h) * sp(zs))).sum() / max(mask.sum(), 1)

    add("plc", n, {"delta": delta, "lam": weight}, {"logits_weak": z.tolist(), "logits": zs.tolist(), "obs": y.tolist()}, plc, ("logits_weak", "logits"))


for n in range(8):
    draw(n)
json.dump({"format": "spml-golden-losses-1", "dtype": "float64", "cases": cases}, sys.stdout)
