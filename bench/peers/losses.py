"""Our losses and PyTorch's, forward and backward, alternating. Run through `make bench-losses`.

Usage: losses.py SIDE OUT.csv [--only an,em] [--shapes 8x20,…] [--rounds 30] [--seconds 0.02] [--compile em,gr,asl]
SIDE is the Go program of bench/side. One thread on both sides, float32, the same inputs; values are compared before times are.

Peers: released and lean (loss_forms.py), compiled (torch.compile of lean), pass (one C++ loop over value and gradient with libmvec and
-ffast-math, without autograd: the reachable limit), copy (torch.add of logits and labels into a third tensor: the memory's limit).
Ours: autograd (loss.Value and Backward), valuegrad (loss.ValueGrad), composed (the plain tensor form)."""
import argparse, csv, ctypes, os, statistics, subprocess, sys, tempfile, time
import paired

p = argparse.ArgumentParser()
p.add_argument("side")
p.add_argument("out")
p.add_argument("--only", default="", help="comma-separated ids")
p.add_argument("--shapes", default="8x20,16x80,128x80,256x312,1024x1000")
p.add_argument("--rounds", type=int, default=30)
p.add_argument("--seconds", type=float, default=0.02, help="length of one sample")
p.add_argument("--compile", default="em,gr,asl", help="ids that torch.compile is tried on, at 128x80 and 1024x1000; empty: none")
a = p.parse_args()
paired.pin_threads()
import numpy as np  # noqa: E402
import torch  # noqa: E402  (threads are pinned before)
from loss_forms import FORMS, inputs  # noqa: E402

torch.set_num_threads(1)

PASS = r"""
#include <cmath>
#define EACH(...) float s = 0; const float k = 1.f / N; _Pragma("omp simd reduction(+:s)") for (long i = 0; i < N; i++) { \
  const float x = z[i], e = expf(-fabsf(x)), r = 1.f / (1.f + e), l = log1pf(e), p = x >= 0 ? r : e * r, n = x >= 0 ? e * r : r, \
  sp = fmaxf(x, 0.f) + l, sn = fmaxf(-x, 0.f) + l; const bool pos = y[i] != 0; __VA_ARGS__ } return s * k;
#define ARGS const float *z, const float *y, float *g, long N
extern "C" {
float em(ARGS) { EACH(s += pos ? sn : -0.1f * (p * sn + n * sp); g[i] = k * (pos ? -n : 0.1f * x * p * n);) }
float gr(ARGS) { EACH(const float h = 1.f / (1.f + expf(5.f - 5.f * p)), d = (p - .65f) * .8f, v = expf(-.5f * d * d), q = expf(-.01f * sn);
  s += pos ? sn : v * (h * (1.f - q) * 100.f + (1.f - h) * p); g[i] = k * (pos ? -n : v * n * ((1.f - h) * p - h * q));) }
float asl(ARGS) { EACH(const float m = fmaxf(p - .2f, 0.f), w = m * m;
  s += pos ? sn : -w * log1pf(-m); g[i] = k * (pos ? -n : p * n * w / fminf(n + .2f, 1.f));) }
}
"""


def passes(folder):
    source, library = os.path.join(folder, "pass.cpp"), os.path.join(folder, "pass.so")
    with open(source, "w") as f:
        f.write(PASS)
    subprocess.run(["g++", "-O3", "-march=native", "-ffast-math", "-mprefer-vector-width=512", "-fopenmp-simd", "-shared", "-fPIC", source, "-o", library, "-lm"], check=True)
    lib = ctypes.CDLL(library)
    for name in ("em", "gr", "asl"):
        f = getattr(lib, name)
        f.argtypes, f.restype = [ctypes.c_void_p] * 3 + [ctypes.c_long], ctypes.c_float
    return lib


MASKED = ("em", "em-apl", "vlpl", "gr", "gpr", "role")


def target(method, ours, peer, rows, classes):
    """What peer/ours is to reach, or None."""
    n = rows * classes
    if method in ("plc", "lac"):  # the released code is a lean one, and LAC's is matrix products on both sides
        return None
    if ours == "autograd":
        if peer == "released":
            return 20 if method == "an" else 30 if method in MASKED else 15
        if peer == "lean":
            if method in ("bce", "an"):
                return 3 if n <= 128 * 80 else 5
            return 3 if method.startswith("ll-") else 10
        if peer == "compiled":
            return 5
        if peer == "pass":
            return 1 / 1.5 if n == 128 * 80 else 1 if n >= 1024 * 1000 else None
    if ours == "valuegrad" and peer == "pass" and n >= 128 * 80:
        return 1 / 0.8 if method == "gr" else 1 / 0.7
    return None


def python_step(f, d, names, more):
    leaves = [d[k].requires_grad_() for k in names if k in "zusf"]
    given = [d[k] for k in names]

    def step():
        for t in leaves:
            t.grad = None
        f(*given, *more).backward()
    return step


def timed(f, n):
    t = time.perf_counter()
    for _ in range(n):
        f()
    return (time.perf_counter() - t) / n


rows_out = []


def report(method, rows, classes, ours_name, peer_name, ours, peer):
    ratios = [q / o for o, q in zip(ours, peer)]
    m, (lo, hi) = statistics.median(ratios), paired.interval(ratios)
    want = target(method, ours_name, peer_name, rows, classes)
    met = "" if want is None else "yes" if hi >= want else "no"
    rows_out.append([method, rows, classes, ours_name, peer_name, *(f"{x*1e6:.4g}" for x in (min(ours), statistics.median(ours), min(peer), statistics.median(peer))),
                     f"{m:.3f}", f"{lo:.3f}", f"{hi:.3f}", "" if want is None else f"{want:.3g}", met, len(ours)])
    print(f"{method} {rows}x{classes}: {ours_name} {statistics.median(ours)*1e6:.4g} us, {peer_name} {statistics.median(peer)*1e6:.4g} us, "
          f"ratio {m:.2f} [{lo:.2f}, {hi:.2f}]" + (f", target {want:.3g}: {met}" if want else ""), flush=True)


def same(method, lean, ours):
    if abs(lean - ours) > 2e-5 * (1 + abs(lean)):
        sys.exit(f"{method}: our loss is {ours}, PyTorch's {lean}: the times would compare different things")


def compare(side, lib, method, rows, classes, d):
    released, lean, names, more = FORMS[method]
    prefix = f"loss/{method}/{rows}x{classes}/"
    forms = {"released": python_step(released, d, names, more), "lean": python_step(lean, d, names, more)}
    if method in a.compile.split(",") and (rows, classes) in ((128, 80), (1024, 1000)):
        forms["compiled"] = python_step(torch.compile(lean, dynamic=False), d, names, more)
    z, y, out = d["z"].detach(), d["y"], torch.empty(rows, classes)
    if hasattr(lib, method.replace("-", "_")):
        once, args = getattr(lib, method), (z.data_ptr(), y.data_ptr(), out.data_ptr(), rows * classes)
        forms["pass"] = lambda: once(*args)
        same(method + " (pass)", lean(*(d[k] for k in names), *more).item(), once(*args))
    forms["copy"] = lambda: torch.add(z, y, out=out)
    want = lean(*(d[k] for k in names), *more).item()
    ours = []
    for form in ("autograd", "valuegrad", "composed"):
        answer = side.ask(prefix + form + " value")
        if answer != "none":
            same(f"{method} ({form})", want, float(answer))
            ours.append(form)
    count = {}
    for name, f in forms.items():
        for _ in range(3):
            f()
        count[name] = max(1, int(a.seconds / max(timed(f, 1), 1e-7)))
    for name in ours:
        side(prefix + name, 3)
        count[name] = max(1, int(a.seconds / max(side(prefix + name, 3), 1e-7)))
    times = {name: [] for name in [*forms, *ours]}
    order = list(times)
    for i in range(a.rounds):
        for name in order if i % 2 else order[::-1]:
            times[name].append(side(prefix + name, count[name]) if name in ours else timed(forms[name], count[name]))
    for mine in ours:
        for peer in forms:
            report(method, rows, classes, mine, peer, times[mine], times[peer])


with tempfile.TemporaryDirectory() as folder:
    side, lib = paired.Side(a.side, folder), passes(folder)
    for shape in a.shapes.split(","):
        rows, classes = map(int, shape.split("x"))
        d = inputs(rows, classes)
        for name, x in d.items():
            np.save(os.path.join(folder, f"{shape}_{name}.npy"), x.numpy())
        for method in FORMS:
            if not a.only or method in a.only.split(","):
                compare(side, lib, method, rows, classes, d)

with open(a.out, "w", newline="") as f:
    w = csv.writer(f)
    w.writerow(["loss", "rows", "classes", "ours", "peer", "ours_best_us", "ours_median_us", "peer_best_us", "peer_median_us",
                "peer_over_ours", "ci95_low", "ci95_high", "target", "met", "rounds"])
    w.writerows(rows_out)
