"""Pictures and metrics, ours and Python's alternating: JPEG to 448 x 448 normalised float32 on one core, the loader with two workers, mAP over 40,504 x 80.

Usage: images.py SIDE DATA IMAGES.csv METRIC.csv [--only a,b] [--rounds 12]
Protocol: 64 photos of each kind, held in memory; every sample is each photo once; the sides take turns, who begins alternates."""
import argparse, csv, glob, io, os, random, statistics, subprocess, sys, time

p = argparse.ArgumentParser()
for name in ("side", "data", "images", "metric"):
    p.add_argument(name)
p.add_argument("--only", default="")
p.add_argument("--rounds", type=int, default=12)
a = p.parse_args()
for v in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[v] = "1"
import numpy as np, torch, torchvision
from PIL import Image
from sklearn.metrics import average_precision_score
from torchvision.transforms import v2
torch.set_num_threads(1)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
tx = torchvision.transforms.Compose([torchvision.transforms.Resize((448, 448)), torchvision.transforms.ToTensor(), torchvision.transforms.Normalize(MEAN, STD)])
mean_t, std_t = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)


def photos(kind):
    if kind == "scene":
        return sum((sorted(glob.glob(os.path.join(a.data, "data", g))) for g in
                    ("coco/coco128/*/*.jpg", "coco/coco_mini/val2017/*.jpg", "VOCdevkit/VOC2012/JPEGImages/*.jpg")), [])[:64]
    return sorted(glob.glob(os.path.join(a.data, "data/cub/images/*/*.jpg")))[::25][:64]


def papers(b):
    return tx(Image.open(io.BytesIO(b)).convert("RGB"))


def strongest(b):
    """torchvision's decoder and uint8 resize"""
    x = torchvision.io.decode_jpeg(torch.frombuffer(bytearray(b), dtype=torch.uint8), mode=torchvision.io.ImageReadMode.RGB)
    x = v2.functional.resize(x, (448, 448), antialias=True)
    return x.float().div_(255).sub_(mean_t).div_(std_t)


class Files(torch.utils.data.Dataset):
    def __init__(self, raw): self.raw = raw
    def __len__(self): return len(self.raw)
    def __getitem__(self, i): return papers(self.raw[i])


def each(f, raw):
    def run():
        t = time.perf_counter()
        for b in raw:
            f(b)
        return (time.perf_counter() - t) / len(raw)
    return run


def loader(raw):
    def run():
        # Started workers, as in the middle of a training run: the first batch is not counted.
        it = iter(torch.utils.data.DataLoader(Files(raw * 3), batch_size=16, num_workers=2))
        next(it)
        t, n = time.perf_counter(), 0
        for x in it:
            n += len(x)
        return (time.perf_counter() - t) / n
    return run


def coco():
    g = np.random.RandomState(1)
    y = (g.random_sample(40504 * 80) < 0.036).astype(np.float64)
    u = g.random_sample(40504 * 80)
    s = (np.floor((u * u * 0.8 + 0.2 * y) * 2**22) / 2**22).astype(np.float32)
    return s.reshape(-1, 80), y.reshape(-1, 80).astype(np.float32)


def ap_sklearn(s, y):
    return 100 * float(np.mean([average_precision_score(y[:, c], s[:, c]) if y[:, c].any() else 0.0 for c in range(s.shape[1])]))


def ap_argsort(s, y):
    out = np.zeros(s.shape[1])
    for c in range(s.shape[1]):
        i = np.argsort(s[:, c])[::-1]
        g = y[i, c] == 1
        tp = np.cumsum(g)
        out[c] = np.sum((tp / np.arange(1, len(i) + 1))[g]) / (tp[-1] + 1e-8)
    return 100 * float(out.mean())


def timed(f, *args):
    def run():
        t = time.perf_counter()
        f(*args)
        return time.perf_counter() - t
    return run


class Side:
    def __init__(self, procs):
        self.p = subprocess.Popen([a.side, "serve", a.data], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "GOMAXPROCS": procs})

    def __call__(self, case, n):
        self.p.stdin.write(f"{case} {n}\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        return float(line) if line else sys.exit(f"{a.side} ended in case {case}")


def interval(ratios):
    r = random.Random(0)
    ms = sorted(statistics.median(r.choices(ratios, k=len(ratios))) for _ in range(2000))
    return ms[50], ms[1949]


def write(path, rows):
    if rows:
        with open(path, "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["case", "peer", "unit", "ours_best", "ours_median", "peer_best", "peer_median", "peer_over_ours", "ci95_low", "ci95_high", "target", "met", "rounds"])
            w.writerows(rows)


def compare(rows, case, ours, n, peers, rounds):
    """peers: name -> (function, target)"""
    if a.only and not any(s in case for s in a.only.split(",")):
        return
    side(ours, n)
    o, q = [], {k: [] for k in peers}
    for i in range(rounds):
        turn = [None, *peers]
        for who in turn if i % 2 else turn[::-1]:
            if who is None:
                o.append(side(ours, n))
            else:
                q[who].append(peers[who][0]())
    for name, (_, target) in peers.items():
        ratios = [b / c for b, c in zip(q[name], o)]
        lo, hi = interval(ratios)
        m = statistics.median(ratios)
        rows.append([case, name, "ms", *(f"{v * 1e3:.4g}" for v in (min(o), statistics.median(o), min(q[name]), statistics.median(q[name]))), f"{m:.3f}", f"{lo:.3f}", f"{hi:.3f}",
                     target, "yes" if hi >= target else "no", rounds])
        print(f"{case}, {name}: {m:.2f} [{lo:.2f}, {hi:.2f}], target {target}", flush=True)


images, scores = [], []
side = Side("2")
for kind, (first, second) in {"scene": (2.2, 1.3), "cub": (4.0, 2.0)}.items():
    raw = [open(f, "rb").read() for f in photos(kind)]
    compare(images, f"{kind}: JPEG to 448 normalised, one core", f"{kind}_448", 64,
            {"Pillow + torchvision transforms": (each(papers, raw), first), "torchvision decode_jpeg + v2 uint8 resize": (each(strongest, raw), second)}, a.rounds)
    compare(images, f"{kind}: loader, two workers, batch 16", f"{kind}_loader", 128, {"DataLoader, Pillow + torchvision transforms": (loader(raw), 2.5)}, max(4, a.rounds // 2))
    compare(images, f"{kind}: a later epoch from the cache against our first", f"{kind}_cached", 128, {"our loader without a cache, uint8 batches": (lambda k=kind: side(f"{k}_uint8", 128), 20)}, max(4, a.rounds // 2))
write(a.images, images)
if not a.only or "mAP" in a.only:
    s, y = coco()
    print("scikit-learn", f"{ap_sklearn(s, y):.12f}")
    compare(scores, "mAP 40504 x 80", "map", 3, {"scikit-learn, class by class": (timed(ap_sklearn, s, y), 20), "numpy argsort (rank form)": (timed(ap_argsort, s, y), 3)}, max(5, a.rounds // 2))
write(a.metric, scores)
