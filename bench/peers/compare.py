"""Our side and PyTorch, Pillow and torchvision, alternating. Run through `make bench-peers`.

Usage: compare.py SIDE DATA OUT.csv [--only a,b] [--rounds 30] [--seconds 0.15]
SIDE is the Go program of bench/side, DATA the data root with data/. One thread on both sides."""
import argparse, csv, glob, os, statistics, subprocess, sys, time
import paired

p = argparse.ArgumentParser()
p.add_argument("side")
p.add_argument("data")
p.add_argument("out")
p.add_argument("--only", default="", help="comma-separated substrings of case names")
p.add_argument("--rounds", type=int, default=30)
p.add_argument("--seconds", type=float, default=0.15, help="length of one sample")
a = p.parse_args()
paired.pin_threads()

import json  # noqa: E402


def start_spawner():
    """A small process that starts others: a child's ru_maxrss begins with the resident size of the process that forked it,
    so the one that has torch loaded must not be that."""
    ask_r, ask_w = os.pipe()
    tell_r, tell_w = os.pipe()
    if os.fork() == 0:
        os.close(ask_w)
        with os.fdopen(ask_r) as ask, os.fdopen(tell_w, "w") as tell:
            for line in ask:
                t = time.perf_counter()
                q = subprocess.Popen(json.loads(line), stdout=subprocess.PIPE)
                out = q.stdout.read().decode().strip()
                _, status, use = os.wait4(q.pid, 0)
                tell.write(json.dumps([status, time.perf_counter() - t, use.ru_maxrss / 1024, out]) + "\n")
                tell.flush()
        os._exit(0)
    os.close(ask_r)
    os.close(tell_w)
    return os.fdopen(ask_w, "w"), os.fdopen(tell_r)


spawner = start_spawner()

import torch  # noqa: E402  (threads are pinned before)

torch.set_num_threads(1)
photos = sorted(glob.glob(os.path.join(a.data, "data/coco/**/*.jpg"), recursive=True) +
                glob.glob(os.path.join(a.data, "data/VOCdevkit/VOC2012/JPEGImages/*.jpg")))
weights = os.path.join(a.data, "data/weights/mobilenet_v2.safetensors")
sample = os.path.join(a.data, "data/weights/samples/hot_dog.jpg")


def mlp(make):
    torch.manual_seed(0)
    L = torch.nn.Linear
    m = torch.nn.Sequential(L(784, 128), torch.nn.ReLU(), L(128, 128), torch.nn.ReLU(), L(128, 10))
    x, t = torch.randn(64, 784), torch.randint(0, 10, (64,))
    opt, loss = make(m.parameters()), torch.nn.CrossEntropyLoss()

    def step():
        opt.zero_grad()
        loss(m(x), t).backward()
        opt.step()
    return step


def pipeline():
    import io
    import torchvision
    from PIL import Image
    tx = torchvision.transforms.Compose([torchvision.transforms.Resize((448, 448)), torchvision.transforms.ToTensor(),
                                         torchvision.transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    raw = [open(f, "rb").read() for f in photos[:64]]
    at = [0]

    def one():
        tx(Image.open(io.BytesIO(raw[at[0] % len(raw)])).convert("RGB"))
        at[0] += 1
    return one


x1, y1 = torch.ones(1), torch.ones(1)
# case: (what, our case, the peer's function, target ratio peer/ours)
cases = {
    "add1": ("1-element add, PyTorch eager", "add1", lambda: lambda: torch.add(x1, y1), 1 / 0.9),
    "mlp_sgd": ("MLP 784-128-128-10 step, batch 64, SGD", "mlp_sgd", lambda: mlp(lambda q: torch.optim.SGD(q, lr=0.01)), 1.3),
    "mlp_adamw_fused": ("the same with AdamW, PyTorch fused=True", "mlp_adamw", lambda: mlp(lambda q: torch.optim.AdamW(q, lr=1e-3, fused=True)), 1.35),
    "mlp_adamw_default": ("the same with AdamW, PyTorch default", "mlp_adamw", lambda: mlp(lambda q: torch.optim.AdamW(q, lr=1e-3)), 1.9),
    "mlp_sgd_recorded": ("the step with SGD, recorded, beside eager PyTorch", "mlp_sgd_recorded", lambda: mlp(lambda q: torch.optim.SGD(q, lr=0.01)), 1.9),
    "mlp_adamw_recorded": ("the step with AdamW, recorded, beside eager PyTorch with its default AdamW", "mlp_adamw_recorded", lambda: mlp(lambda q: torch.optim.AdamW(q, lr=1e-3)), 2.6),
    "jpeg448": ("JPEG to 448x448 normalised, Pillow + torchvision", "jpeg448", pipeline, 2.0),
}



def operators():
    """Single operators and optimizer steps at two sizes, as bench/side/operators.go has them."""
    F = torch.nn.functional
    out = {}
    for size, n, m, conv, side, length, width, param in (("small", 1 << 10, 64, 16, 16, 16, 16, 1 << 10), ("large", 1 << 22, 1024, 64, 56, 256, 64, 1 << 20)):
        def two(f, *shapes):
            def make():
                torch.manual_seed(0)
                ts = [torch.randn(s) for s in shapes]
                return lambda: f(*ts)
            return make

        def step(opt, param=param):
            def make():
                ps = [torch.randn(param, requires_grad=True) for _ in range(10)]
                for q in ps:
                    q.grad = torch.randn(param)
                return opt(ps).step
            return make
        image, qkv = (8, conv, side, side), (4, 4, length, width)
        for name, make in {
            "add": two(torch.add, (n,), (n,)),
            "exp": two(torch.exp, (n,)),
            "sigmoid_mul": two(lambda x, y: torch.sigmoid(x).mul(y), (n,), (n,)),
            "sum": two(lambda x: x.sum(1), (n // 64, 64)),
            "matmul": two(torch.mm, (m, m), (m, m)),
            "linear": two(F.linear, (m, m), (m, m), (m,)),
            "conv": two(lambda x, w, b: F.conv2d(x, w, b, padding=1), image, (conv, conv, 3, 3), (conv,)),
            "attention": two(F.scaled_dot_product_attention, qkv, qkv, qkv),
            "sgd": step(lambda q: torch.optim.SGD(q, lr=1e-3, momentum=0.9)),
            "adamw": step(lambda q: torch.optim.AdamW(q, lr=1e-3)),
        }.items():
            out[f"{size}_{name}"] = (f"{name}, {size}", f"{size}_{name}", make, None)
    return out


cases.update(operators())
MEANS = {"small": 1.0, "large": 1 / 1.02}  # targets of the geometric means

FIRST = r'''
import torch, torchvision
torch.set_num_threads(1)
from safetensors.torch import load_file
from PIL import Image
m = torchvision.models.mobilenet_v2()
m.load_state_dict(load_file(%(w)r), strict=False)
m.eval()
tx = torchvision.transforms.Compose([torchvision.transforms.Resize((224, 224)), torchvision.transforms.ToTensor(),
    torchvision.transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
with torch.no_grad():
    print(int(m(tx(Image.open(%(img)r).convert("RGB"))[None]).argmax()))
''' % dict(w=weights, img=sample)


def spawn(cmd):
    """Seconds from start to end, peak resident MiB, output."""
    spawner[0].write(json.dumps(cmd) + "\n")
    spawner[0].flush()
    status, seconds, rss, out = json.loads(spawner[1].readline())
    if status != 0:
        sys.exit(f"{cmd[0]} failed")
    return seconds, rss, out


rows = []


def report(case, what, ours, peer, target, unit, scale):
    ratios = [q / o for o, q in zip(ours, peer)]
    lo, hi = paired.interval(ratios)
    m = statistics.median(ratios)
    met = "" if target is None else "yes" if hi >= target else "no"
    goal = "" if target is None else f"{target:.3g}"
    rows.append([case, what, unit, f"{min(ours)*scale:.4g}", f"{statistics.median(ours)*scale:.4g}", f"{min(peer)*scale:.4g}",
                 f"{statistics.median(peer)*scale:.4g}", f"{m:.3f}", f"{lo:.3f}", f"{hi:.3f}", goal, met, len(ours)])
    print(f"{what}: ours {min(ours)*scale:.4g}/{statistics.median(ours)*scale:.4g} {unit} (best/median), peer {min(peer)*scale:.4g}/"
          f"{statistics.median(peer)*scale:.4g}; peer/ours {m:.2f} [{lo:.2f}, {hi:.2f}], target {goal or 'none'}: {met}", flush=True)


def wanted(name):
    return not a.only or any(s in name for s in a.only.split(","))


side = paired.Side(a.side, a.data)
sums = {k: ([], []) for k in MEANS}  # times of each case of a size, by round
for name, (what, ours_case, make, target) in cases.items():
    if not wanted(name):
        continue
    f = make()
    for _ in range(3):
        f()
    t = time.perf_counter()
    f()
    n = max(1, int(a.seconds / max(time.perf_counter() - t, 1e-7)))
    if name == "jpeg448":
        n = 64  # every photo once on both sides
    side(ours_case, n)
    ours, peer = [], []
    for i in range(a.rounds):
        for who in ((0, 1) if i % 2 else (1, 0)):
            if who:
                ours.append(side(ours_case, n))
            else:
                t = time.perf_counter()
                for _ in range(n):
                    f()
                peer.append((time.perf_counter() - t) / n)
    report(name, what, ours, peer, target, "us", 1e6)
    if name.split("_")[0] in sums:
        sums[name.split("_")[0]][0].append(ours)
        sums[name.split("_")[0]][1].append(peer)

for size, (ours, peer) in sums.items():
    if ours:
        mean = [[statistics.geometric_mean(case[i] for case in who) for i in range(a.rounds)] for who in (ours, peer)]
        report(f"operators_{size}", f"geometric mean of the {len(ours)} operators and optimizer steps, {size}", mean[0], mean[1], MEANS[size], "us", 1e6)

if wanted("first_prediction"):
    times, memory, answer = ([], []), ([], []), ""
    for i in range(max(5, a.rounds // 3) + 1):
        for k, cmd in enumerate(([a.side, "first", weights, sample], [sys.executable, "-c", FIRST])):
            t, rss, out = spawn(cmd)
            if i:  # the first round fills the file cache
                times[k].append(t)
                memory[k].append(rss)
            answer = out if k == 0 else answer
        if answer != out:
            sys.exit(f"first prediction: ours says class {answer}, torchvision {out}")
    report("first_prediction", "process start to first MobileNetV2 prediction", times[0], times[1], 7.0, "ms", 1e3)
    report("first_prediction_rss", "its peak resident memory", memory[0], memory[1], 1 / 0.35, "MiB", 1.0)

measured = {r[0] for r in rows}
if a.only and os.path.exists(a.out):  # the other rows stay
    with open(a.out, newline="") as f:
        rows = [r for r in list(csv.reader(f))[1:] if r[0] not in measured] + rows
with open(a.out, "w", newline="") as f:
    w = csv.writer(f)
    w.writerow(["case", "what", "unit", "ours_best", "ours_median", "peer_best", "peer_median", "peer_over_ours", "ci95_low", "ci95_high", "target", "met", "rounds"])
    w.writerows(rows)
