"""Writes pseudo.json: VLPL's and DAMP's labels, the label graph and its noise by a plain transcription into numpy, in float64, of random and awkward cases.

    python make_pseudo.py
"""
import json
import os

import numpy as np


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def lowest(x, n):
    """Indices of the n smallest; ties go to the lower index."""
    return sorted(range(len(x)), key=lambda i: (x[i], i))[:n]


def highest(x, n):
    return sorted(range(len(x)), key=lambda i: (-x[i], i))[:n]


def vlpl(cos, tau, theta, delta):
    p = softmax(cos / tau)
    out = (p > theta).astype(int)
    for b in range(len(p)):
        out[b, lowest(p[b], int(delta * p.shape[1]))] = -1
    return out, p


def damp(cos, tiles, observed, tau, nu, k, zeta, delta, form):
    s, sl = softmax(cos / tau), softmax(tiles / tau)
    b, c = s.shape
    labels, finals = np.zeros((b, c), int), np.zeros((b, c))
    for i in range(b):
        seen = int(np.argmax(observed[i]))
        local = min(s[i, seen], nu)
        best, worst = sl[:, i].max(0), sl[:, i].min(0)
        use = best > local if form == "code" else best >= local
        final = (s[i] + np.where(use, best, worst)) / 2
        avg = (s[i] + sl[:, i].mean(0)) / 2
        top = highest(final, min(k, c))
        y = np.zeros(c, int)
        for j in top:
            if final[j] >= zeta:
                y[j] = 1
        if form == "paper":
            y[avg <= np.quantile(avg, delta)] = -1
        else:
            for j in lowest(avg, int(delta * c)):
                if form == "code":
                    y[j] = 0
                elif form == "count":
                    y[j] = -1
                elif y[j] == 0 and observed[i, j] != 1:
                    y[j] = -1
        labels[i], finals[i] = y, final
    return labels, finals


def graph(s, u, e, tau):
    c = len(s)
    sparse = np.zeros_like(s)
    for i in range(c):
        keep = highest(s[i], u)
        sparse[i, keep] = s[i, keep]
    bar = sparse.copy()
    np.fill_diagonal(bar, 0)
    total = bar.sum(1, keepdims=True)
    bar = np.where(total == 0, bar, bar / np.where(total == 0, 1, total) * e)
    np.fill_diagonal(bar, 1 - e)
    star = np.zeros_like(bar)
    for i in range(c):
        on = bar[i] != 0
        star[i, on] = softmax(bar[i, on] / tau)
    return sparse, bar, star


def noise(a, h, weights, paper):
    x = h
    for i, w in enumerate(weights):
        x = a @ (x @ w)
        if i < 2 or paper:
            x = np.where(x > 0, x, 0.2 * x)
    t = h + x
    return x, t / np.linalg.norm(t, axis=1, keepdims=True)


def main():
    g = np.random.default_rng(20261121)
    cases = {"vlpl": [], "damp": [], "graph": [], "noise": []}
    # cosines far enough from thresholds in float64; float32 inputs, so that both sides read the same numbers
    draw = lambda *s: (0.1 + 0.3 * g.random(s)).astype(np.float32).astype(np.float64)
    for b, c in [(1, 1), (3, 2), (4, 5), (2, 20), (3, 80), (2, 312)]:
        for tau, theta, delta in [(0.01, 0.3, 0), (0.03, 0.3, 0.2), (0.05, 0.1, 0.4), (0.03, 0.01, 1)]:
            x = draw(b, c)
            y, p = vlpl(x, tau, theta, delta)
            cases["vlpl"].append(dict(cos=x.tolist(), tau=tau, theta=theta, delta=delta, labels=y.tolist(), p=p.tolist()))
    same = np.full((2, 4), 0.25)
    y, p = vlpl(same, 0.03, 0.3, 0.5)
    cases["vlpl"].append(dict(cos=same.tolist(), tau=0.03, theta=0.3, delta=0.5, labels=y.tolist(), p=p.tolist()))
    for b, r, c in [(1, 1, 1), (2, 4, 2), (3, 9, 6), (2, 16, 20), (2, 4, 81)]:
        for form in ["", "paper", "code", "count"]:
            for tau, nu, k, zeta, delta in [(0.01, 0.3, 3, 0.5, 0.2), (0.05, 0.0, 3, 0.1, 0.3), (0.1, 0.005, 32, 0.005, 0.25)]:
                x, t = draw(b, c), draw(r, b, c)
                seen = np.zeros((b, c), int)
                seen[np.arange(b), g.integers(0, c, b)] = 1
                y, final = damp(x, t, seen, tau, nu, k, zeta, delta, form)
                cases["damp"].append(dict(cos=x.tolist(), tiles=t.tolist(), observed=seen.tolist(), tau=tau, nu=nu, k=k, zeta=zeta, delta=delta, form=form, labels=y.tolist(), final=final.tolist()))
    same, tiles = np.full((1, 5), 0.3), np.full((4, 1, 5), 0.3)
    seen = np.array([[0, 0, 1, 0, 0]])
    for form in ["", "paper", "code", "count"]:
        y, final = damp(same, tiles, seen, 0.01, 0.3, 3, 0.1, 0.4, form)
        cases["damp"].append(dict(cos=same.tolist(), tiles=tiles.tolist(), observed=seen.tolist(), tau=0.01, nu=0.3, k=3, zeta=0.1, delta=0.4, form=form, labels=y.tolist(), final=final.tolist()))
    for c, u, e, tau in [(1, 1, 0.2, 0.3), (5, 3, 0.2, 0.3), (20, 20, 0.2, 0.3), (30, 7, 0.5, 0.2)]:
        h = g.standard_normal((c, 8))
        n = h / np.linalg.norm(h, axis=1, keepdims=True)
        s = np.abs(n @ n.T)
        sparse, bar, star = graph(s, u, e, tau)
        cases["graph"].append(dict(s=s.tolist(), u=u, e=e, tau=tau, sparse=sparse.tolist(), bar=bar.tolist(), star=star.tolist()))
        w = [g.standard_normal(d) / 3 for d in [(8, 6), (6, 6), (6, 8)]]
        for paper in [False, True]:
            x, t = noise(bar, h, w, paper)
            cases["noise"].append(dict(a=bar.tolist(), h=h.tolist(), weights=[m.tolist() for m in w], paper=paper, noise=x.tolist(), text=t.tolist()))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pseudo.json")
    round8 = lambda v: [round8(x) for x in v] if isinstance(v, list) else float(f"{v:.9g}") if isinstance(v, float) else v
    with open(path, "w") as f:
        json.dump({k: [{n: round8(v) for n, v in c.items()} for c in v] for k, v in cases.items()}, f, separators=(",", ":"))
    print(os.path.getsize(path), {k: len(v) for k, v in cases.items()})


if __name__ == "__main__":
    main()
