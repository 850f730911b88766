"""Writes metrics.json: what scikit-learn, scipy and numpy make of 500 random matrices and some samples. Case i is drawn from RandomState(seed) in
the way that the test draws it again.   Run: python make_metrics.py"""
import json, warnings
from pathlib import Path

import numpy as np
import scipy, sklearn
from scipy.optimize import brentq, minimize
from scipy.special import expit
from scipy.stats import wasserstein_distance
from sklearn import metrics as M
from sklearn.calibration import calibration_curve

warnings.simplefilter("ignore")
THRESHOLD, BINS = 0.4, 10


def matrix(seed, least=1):
    """scores float32 [n, c] in [0, 1], labels in {-1, 0, 1}"""
    g = np.random.RandomState(seed)
    n, c, kind, share = int(g.randint(least, 60)), int(g.randint(3, 12)), int(g.randint(5)), g.random_sample()
    u = g.random_sample((n, c))
    if kind == 1: u = np.floor(u * 8) / 8
    if kind == 2: u = np.round(u * 20) / 20
    if kind == 3: u = u * 0 + 0.25
    if kind == 4: u = 1 - u * 1e-6
    v = g.random_sample((n, c))
    y = np.where(v < share * share, 1, np.where(v > 0.9, -1, 0)).astype(np.int8)
    for j in range(c):
        k = int(g.randint(10))
        if k == 0: y[:, j] = 0
        if k == 1: y[:, j] = 1
        if k == 2: y[:, j] = -1
    return u.astype(np.float32), y


def ap(y, s):
    return float(M.average_precision_score(y, s)) if (y == 1).any() else 0.0


def voc(y, s):
    pos = int(y.sum())
    if pos == 0: return 0.0
    p, r, _ = M.precision_recall_curve(y, s)
    p, tp = p[:-1], np.rint(r[:-1] * pos).astype(int)  # without scikit-learn's closing point (1, 0)
    return float(np.mean([p[10 * tp >= k * pos].max() for k in range(11)]))


def best_f1(y, s):
    if not y.any(): return 0.0
    p, r, _ = M.precision_recall_curve(y, s)
    return float(np.max(np.where(p + r > 0, 2 * p * r / np.maximum(p + r, 1e-300), 0)))


def ece(y, p):
    """from scikit-learn's calibration curve and the sizes of its bins"""
    t, q = calibration_curve(y, p, n_bins=BINS, strategy="uniform")
    n = np.bincount(np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], p), minlength=BINS)
    return float((np.abs(t - q) * n[n > 0]).sum() / n.sum())


def case(s, raw):
    y = (raw == 1).astype(int)
    n, c = s.shape
    d, pred = s.astype(np.float64), (s > np.float32(THRESHOLD)).astype(int)
    seen = [ap(y[raw[:, j] != -1, j], d[raw[:, j] != -1, j]) for j in range(c) if (raw[:, j] != -1).any()]
    out = [100 * np.mean([ap(y[:, j], d[:, j]) for j in range(c)]), 100 * np.mean(seen) if seen else 0.0,
           100 * np.mean([voc(y[:, j], d[:, j]) for j in range(c)])]
    for average in ("micro", "macro", "weighted"):
        out += M.precision_recall_fscore_support(y, pred, average=average, zero_division=0)[:3]
    out += [M.hamming_loss(y, pred), M.accuracy_score(y, pred)]
    order = np.array([np.lexsort((np.arange(c), r))[::-1] for r in d])
    hit = np.take_along_axis(y, order, 1)
    for k in (1, 3):
        h = hit[:, :k].sum(1)
        out += [np.mean(h / k), np.mean(np.where(y.sum(1) > 0, h / np.maximum(y.sum(1), 1), 0)), np.mean(h > 0)]
    out += [M.coverage_error(y, d), M.label_ranking_loss(y, d), M.label_ranking_average_precision_score(y, d), 1 - hit[:, 0].mean()]
    out += [ece(y.ravel(), d.ravel()), np.mean([ece(y[:, j], d[:, j]) for j in range(c)]),
            np.mean([np.mean((d[:, j] - y[:, j]) ** 2) for j in range(c)]), np.mean([best_f1(y[:, j], d[:, j]) for j in range(c)])]
    if (raw == 1).any() and (raw != 1).any():  # brier_score_loss wants both
        assert abs(M.brier_score_loss(y.ravel(), d.ravel()) - out[-2]) < 1e-12
    return [float(v) for v in out]


def logits(seed):
    g = np.random.RandomState(seed)
    n = int(g.randint(5, 300))
    z = (g.random_sample(n) - 0.5) * 12
    y = (g.random_sample(n) < expit(z * 0.6 - 0.5)).astype(np.int8)
    return z, y


def scaling(seed):
    """[T or 0, A, B]"""
    z, y = logits(seed)
    slope = lambda b: float(np.sum(z * (expit(b * z) - y)))
    t = 0.0
    if slope(0) < 0 and slope(1e3) > 0:
        t = 1 / brentq(slope, 0, 1e3, xtol=1e-15, rtol=1e-15)
    pos = int(y.sum()); neg = len(y) - pos
    target = np.where(y == 1, (pos + 1) / (pos + 2), 1 / (neg + 2))
    def f(w):
        q = w[0] * z + w[1]
        return float(np.sum(np.logaddexp(0, q) - (1 - target) * q))
    def df(w):
        e = expit(w[0] * z + w[1]) - (1 - target)
        return np.array([np.sum(e * z), np.sum(e)])
    def ddf(w):
        p = expit(w[0] * z + w[1]); v = p * (1 - p)
        return np.array([[np.sum(v * z * z), np.sum(v * z)], [np.sum(v * z), np.sum(v)]])
    w = minimize(f, [0.0, np.log((neg + 1) / (pos + 1))], jac=df, hess=ddf, method="trust-exact", options={"gtol": 1e-12}).x
    for _ in range(5): w = w - np.linalg.solve(ddf(w), df(w))
    return [t, float(w[0]), float(w[1])]


def bootstrap(seed, replicates):
    """[mAP low, high, first class low, high, B - A low, high, p] at 0.9"""
    s, raw = matrix(seed, 20)
    y, n = (raw == 1).astype(int), len(s)
    other = np.round(s.astype(np.float64) * 0.5 + y * 0.2, 2).astype(np.float32)
    g = np.random.RandomState(seed)
    a, b = [], []
    for _ in range(replicates):
        i = g.randint(0, n, n)
        a.append([ap(y[i, j], s[i, j]) for j in range(s.shape[1])])
        b.append([ap(y[i, j], other[i, j]) for j in range(s.shape[1])])
    a, b = np.array(a), np.array(b)
    d = 100 * (b.mean(1) - a.mean(1))
    q = lambda v: [float(x) for x in np.quantile(v, [0.05, 0.95])]
    # replicates that agree up to rounding are not decided by it
    p = min(1, (1 + 2 * min(int((d <= 1e-9).sum()), int((d >= -1e-9).sum()))) / (1 + replicates))
    return q(100 * a.mean(1)) + q(a[:, 0]) + q(d) + [p]


def distance(seed):
    g = np.random.RandomState(seed)
    a, b = g.random_sample(int(g.randint(1, 50))), g.random_sample(int(g.randint(1, 50)))
    return float(wasserstein_distance(np.round(a, 2), np.round(b * 0.7, 2)))


def short(v): return [float(f"{x:.15g}") for x in v]


out = {"about": f"scikit-learn {sklearn.__version__}, scipy {scipy.__version__}, numpy {np.__version__}; order of the values as in the script",
       "cases": [short(case(*matrix(1000 + i))) for i in range(500)], "scaling": [scaling(2000 + i) for i in range(60)],
       "bootstrap": [short(bootstrap(3000 + i, 50)) for i in range(6)], "wasserstein": short([distance(4000 + i) for i in range(60)])}
Path(__file__).with_name("metrics.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")
