"""Steps of our trainer and of PyTorch's loops, alternating, one thread. Run through `make bench-train`.

Usage: train.py SIDE DATA OUT.csv [--only probe,r50] [--rounds 9]
Linear heads on cached features: the loop that the papers' code has, with indexing, loss.item() and Adam, against our trainer's.
Fine-tuning: torchvision's network on one fixed tensor (no loader, no images) against our trainer with its loader; MIML scenes at 224."""
import argparse, csv, os, statistics, subprocess, sys, tempfile, time
import paired

p = argparse.ArgumentParser()
p.add_argument("side")
p.add_argument("data")
p.add_argument("out")
p.add_argument("--only", default="")
p.add_argument("--rounds", type=int, default=9)
a = p.parse_args()
paired.pin_threads()
import torch, torchvision  # noqa: E402  (threads are pinned before)
import torch.nn.functional as F  # noqa: E402

torch.set_num_threads(1)
torch.manual_seed(0)
N, D, C = 4096, 2048, 80


def probe(batch, fused):
    X, Y = torch.rand(N, D), torch.zeros(N, C)
    Y[torch.arange(N), torch.randint(0, C, (N,))] = 1
    m = torch.nn.Linear(D, C)
    o = torch.optim.Adam(m.parameters(), lr=1e-3, fused=True if fused else None)

    def run(n):
        total = 0.0
        while n > 0:
            order = torch.randperm(N)
            for at in range(0, N, batch):
                i = order[at:at + batch]
                loss = F.binary_cross_entropy_with_logits(m(X[i]), Y[i])
                o.zero_grad()
                loss.backward()
                o.step()
                total += loss.item()
                n -= 1
    return run


def tune(net, batch, amp, fmt):
    m = getattr(torchvision.models, net)(num_classes=5).to(memory_format=fmt).train()
    o = torch.optim.Adam(m.parameters(), lr=1e-5)
    x = torch.rand(batch, 3, 224, 224).to(memory_format=fmt)
    y = (torch.rand(batch, 5) < 0.3).float()

    def run(n):
        for _ in range(n):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
                z = m(x)
            loss = F.binary_cross_entropy_with_logits(z.float(), y)
            o.zero_grad()
            loss.backward()
            o.step()
            loss.item()
    return run


def checkpoint(what):
    """ResNet-50 by torch.save, which leaves the file to the system's cache, or with fsync as ours does; by torch.load into the model."""
    m = torchvision.models.resnet50()
    path = os.path.join(tempfile.mkdtemp(prefix="peer-"), "state.pt")

    def save(sync):
        with open(path, "wb") as f:
            torch.save(m.state_dict(), f)
            if sync:
                f.flush()
                os.fsync(f.fileno())
    save(True)

    def run(n):
        for _ in range(n):
            if what == "load":
                m.load_state_dict(torch.load(path, mmap=False))
            else:
                save(what == "save_synced")
    return run


STEP = {"features": r"""
import torch, numpy as np, csv
torch.set_num_threads(1)
X = torch.from_numpy(np.load(D + "/features/miml_mobilenetv2.npy")).float()
rows = list(csv.reader(open(D + "/miml/labels.csv")))
Y = torch.tensor([[float(x == "1") for x in r[1:]] for r in rows[1:]])
m = torch.nn.Linear(X.shape[1], Y.shape[1])
o = torch.optim.Adam(m.parameters(), lr=1e-3)
i = torch.randperm(len(Y))[:16]
loss = torch.nn.functional.binary_cross_entropy_with_logits(m(X[i]), Y[i])
loss.backward()
o.step()
print(loss.item())
""", "photos": r"""
import torch, torchvision, csv, os
torch.set_num_threads(1)
from safetensors.torch import load_file
from PIL import Image
m = torchvision.models.mobilenet_v2()
m.load_state_dict(load_file(D + "/weights/mobilenet_v2.safetensors"), strict=False)
rows = list(csv.reader(open(D + "/miml/labels.csv")))
m.classifier = torch.nn.Linear(1280, len(rows[0]) - 1)
m.train().to(memory_format=torch.channels_last)
T = torchvision.transforms
tx = T.Compose([T.Resize((224, 224)), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
o = torch.optim.Adam(m.parameters(), lr=1e-4)
i = torch.randperm(len(rows) - 1)[:16].tolist()
x = torch.stack([tx(Image.open(os.path.join(D, "miml", "images", rows[1 + k][0])).convert("RGB")) for k in i]).contiguous(memory_format=torch.channels_last)
y = torch.tensor([[float(c == "1") for c in rows[1 + k][1:]] for k in i])
loss = torch.nn.functional.binary_cross_entropy_with_logits(m(x), y)
loss.backward()
o.step()
print(loss.item())
"""}


def begin(command):
    t = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ, OMP_NUM_THREADS="1"))
    return time.perf_counter() - t


last, plain = torch.channels_last, torch.contiguous_format
cases = [  # name, what, our case, peer, target peer/ours, steps a sample
    ("probe16", "linear head on features, batch 16, PyTorch's Adam", "probe16", lambda: probe(16, False), 3, 256),
    ("probe16_fused", "the same, fused=True", "probe16", lambda: probe(16, True), 3, 256),
    ("probe1024", "the same, batch 1024", "probe1024", lambda: probe(1024, False), 1.2, 16),
    ("probe1024_fused", "batch 1024, fused=True", "probe1024", lambda: probe(1024, True), 1.2, 16),
    ("mnv2_fp32", "MobileNetV2, batch 16, both channels-last float32", "mnv2_fp32", lambda: tune("mobilenet_v2", 16, False, last), 1, 1),
    ("mnv2_bf16", "MobileNetV2, batch 16, both channels-last bf16", "mnv2_bf16", lambda: tune("mobilenet_v2", 16, True, last), 1, 1),
    ("mnv2_scripts", "MobileNetV2, our bf16, the papers' contiguous float32", "mnv2_bf16", lambda: tune("mobilenet_v2", 16, False, plain), 3, 1),
    ("r50_fp32", "ResNet-50, batch 8, both channels-last float32", "r50_fp32", lambda: tune("resnet50", 8, False, last), 1, 1),
    ("r50_bf16", "ResNet-50, batch 8, both channels-last bf16", "r50_bf16", lambda: tune("resnet50", 8, True, last), 1, 1),
    ("r50_scripts", "ResNet-50, our bf16, the papers' contiguous float32", "r50_bf16", lambda: tune("resnet50", 8, False, plain), 3, 1),
    ("checkpoint_save", "ResNet-50 to a file: ours synced to the disk and hashed, torch.save without either", "checkpoint_save", lambda: checkpoint("save"), 1.5, 1),
    ("checkpoint_save_synced", "the same, torch.save with fsync", "checkpoint_save", lambda: checkpoint("save_synced"), 1.5, 1),
    ("checkpoint_load", "ResNet-50 from a file into the model, torch.load and load_state_dict", "checkpoint_load", lambda: checkpoint("load"), 2, 2),
    ("first_step_features", "process start to the end of the first step, a head on features", None, "features", 5, 1),
    ("first_step_photos", "process start to the end of the first step, MobileNetV2 on 16 photos", None, "photos", 5, 1),
]
rows = []
for name, what, mine, make, target, n in cases:
    if a.only and not any(s in name for s in a.only.split(",")):
        continue
    if mine is None:  # processes
        d = os.path.join(a.data, "data")
        side, peer = None, None
        both = [lambda: begin([sys.executable, "-c", f"D = {d!r}\n" + STEP[make]]), lambda: begin([a.side, "step", make, a.data])]
    else:
        side, peer = paired.Side(a.side, a.data), make()

        def timed():
            t = time.perf_counter()
            peer(n)
            return (time.perf_counter() - t) / n
        both = [timed, lambda: side(mine, n)]
    both[1]()
    both[0]()
    times = [], []
    for k in range(a.rounds):
        for who in ((0, 1) if k % 2 else (1, 0)):
            times[who].append(both[who]())
    theirs, ours = times
    if side:
        side.p.kill()
    ratios = [q / o for o, q in zip(ours, theirs)]
    lo, hi = paired.interval(ratios)
    m = statistics.median(ratios)
    rows.append([name, what, f"{statistics.median(ours)*1e3:.4g}", f"{statistics.median(theirs)*1e3:.4g}", f"{m:.3f}", f"{lo:.3f}", f"{hi:.3f}", target,
                 "yes" if hi >= target else "no", a.rounds])
    print(*rows[-1], flush=True)
new = not os.path.exists(a.out)
old = [] if new else list(csv.reader(open(a.out)))[1:]
names = [r[0] for r in rows]
with open(a.out, "w", newline="") as f:
    w = csv.writer(f, lineterminator="\n")
    w.writerow("case what ours_ms peer_ms peer_over_ours ci95_low ci95_high target met rounds".split())
    w.writerows([r for r in old if r[0] not in names] + rows)
