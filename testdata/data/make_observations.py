"""Observed labels by numpy's generator: python make_observations.py > observations.json"""
import json
import numpy as np

cases = []
for n, c, seed in [(30, 6, 1200), (25, 11, 7), (12, 1, 3)]:
    rng = np.random.RandomState(seed + 100)
    y = (rng.random_sample((n, c)) < 0.35).astype(int)
    y[0] = 0
    y[1] = 1
    for p, q in [(1, 0), (2, 3), (-1, 0), (1, -1), (3, 1)]:  # the loop of Cole et al.'s observe_uniform
        r = np.random.RandomState(seed)
        o = np.zeros_like(y)
        for i in range(n):
            pos, neg = np.nonzero(y[i] == 1)[0], np.nonzero(y[i] == 0)[0]
            r.shuffle(pos)
            r.shuffle(neg)
            o[i, pos if p < 0 else pos[:p]] = 1
            o[i, neg if q < 0 else neg[:q]] = -1
        cases.append({"model": "uniform", "positives": p, "negatives": q, "seed": seed, "labels": y.tolist(), "observed": o.tolist()})
    r = np.random.RandomState(seed)
    o = np.zeros_like(y)
    f = y.sum(0)
    for i in range(n):
        pos = np.nonzero(y[i])[0]
        if len(pos):
            o[i, pos[np.searchsorted(np.cumsum(f[pos]), r.random_sample() * f[pos].sum(), side="right")]] = 1
    cases.append({"model": "frequency", "seed": seed, "labels": y.tolist(), "observed": o.tolist()})
    r = np.random.RandomState(seed)
    cases.append({"model": "share", "share": 0.4, "seed": seed, "labels": y.tolist(), "observed": np.where(r.random_sample(y.shape) < 0.4, 2 * y - 1, 0).tolist()})
print(json.dumps(cases))
