"""A training step of LAC's second stage beside the released form in PyTorch, alternating. Run through `make bench-lac`.

Usage: lac.py SIDE OUT.csv [--rounds 3] [--threads 2]
ResNet-50 with constant normalisation (stem and layer1 not trained), 448 x 448, batch 4 in two views, d = 2048, 80 classes, AdamW; random weights and
pixels. Both processes stay alive and take turns; their peaks are their own largest resident sizes."""
import argparse, csv, resource, statistics, subprocess, sys, time

p = argparse.ArgumentParser()
p.add_argument("side")
p.add_argument("out")
p.add_argument("--rounds", type=int, default=3)
p.add_argument("--threads", type=int, default=2)
p.add_argument("--only", default="", help="comma-separated words of case names")
p.add_argument("--device", default="cpu", help="cuda:0: one case in bfloat16, and no memory")
p.add_argument("--dry", action="store_true",
        help="say what would be measured, beside our side at a small size; needs no torch")
p.add_argument("--peer", default="", help=argparse.SUPPRESS)
a = p.parse_args()


def peer(dtype, layout):
    """The released form: modules as in the paper's code, attention with its weights, AdamW as PyTorch chooses it."""
    import torch, torchvision
    from torch import nn
    import torch.nn.functional as F
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    C, d, b, dev = 80, 2048, 4, torch.device(a.device)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn = nn.MultiheadAttention(d, 4, dropout=0.1, batch_first=True)
            self.linear1, self.linear2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
            self.norm1, self.norm2, self.drop = nn.LayerNorm(d), nn.LayerNorm(d), nn.Dropout(0.1)

        def forward(self, x, q, k, v):
            x = self.norm1(x + self.drop(self.attn(q, k, v)[0]))
            return self.norm2(x + self.drop(self.linear2(self.drop(F.relu(self.linear1(x))))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            r = torchvision.models.resnet50(norm_layer=torchvision.ops.FrozenBatchNorm2d)
            for w in list(r.conv1.parameters()) + list(r.layer1.parameters()):
                w.requires_grad = False
            self.body = nn.Sequential(*list(r.children())[:-2])
            self.encoder, self.decoder = Layer(), nn.ModuleList([Layer(), Layer()])
            self.norm, self.query = nn.LayerNorm(d), nn.Embedding(C, d)
            self.W, self.b = nn.Parameter(torch.randn(1, C, d) * 0.01), nn.Parameter(torch.zeros(1, C))
            self.proj = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 128))
            self.register_buffer("pos", torch.randn(1, 196, d))

        def forward(self, x):
            m = self.body(x).flatten(2).transpose(1, 2)
            m = self.encoder(m, m + self.pos, m + self.pos, m)
            q = self.query.weight[None].expand(len(x), -1, -1)
            t = torch.zeros_like(q)
            for layer in self.decoder:
                t = layer(t, t + q, m + self.pos, m)
            f = self.norm(t)
            return (self.W * f).sum(-1) + self.b, F.normalize(self.proj(f), dim=-1)

    m = Model().to(dev).train()
    if layout == "channels_last":
        m = m.to(memory_format=torch.channels_last)
    x = torch.rand(2 * b, 3, 448, 448).to(dev,
            memory_format=torch.channels_last if layout == "channels_last" else torch.contiguous_format)
    y = torch.zeros(b, C, device=dev)
    y[torch.arange(b), 7 * torch.arange(b)] = 1
    opt = torch.optim.AdamW([w for w in m.parameters() if w.requires_grad], lr=1e-4, weight_decay=1e-2)
    queue, labels, at = torch.zeros(512, 2, 128, device=dev), torch.zeros(512, dtype=torch.long, device=dev), 0
    for line in sys.stdin:
        if line.strip() == "peak":
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, flush=True)
            continue
        t0 = time.perf_counter()
        opt.zero_grad()
        with torch.autocast(dev.type, dtype=torch.bfloat16, enabled=dtype == "bf16"):
            z, e = m(x)
        z, e = z.float(), e.float()
        weak, strong = z[:b], z[b:]
        q = weak.detach().sigmoid() + y
        hard, mask = (q >= 0.9).float(), ((q >= 0.9) | (q < 0.1)).float()
        plc = (F.binary_cross_entropy_with_logits(strong, hard, reduction="none") * mask).sum() / mask.sum()
        i, c = torch.nonzero(hard, as_tuple=True)
        i, c = i[:512], c[:512]
        pairs, n = torch.stack((e[:b][i, c], e[b:][i, c]), 1), len(c)
        at = 0 if at + n >= 512 else at
        queue = queue.detach()
        queue[at:at + n], labels[at:at + n] = pairs, c + 1
        at += n
        used = int((labels != 0).sum())
        v, lab = queue[:used].transpose(0, 1).reshape(-1, 128), labels[:used].repeat(2)
        s = v @ v.t() / 0.5
        s = s - s.max(1, keepdim=True).values.detach()
        off = 1 - torch.eye(len(v), device=dev)
        same = (lab[:, None] == lab[None]).float() * off
        log_p = s - torch.log((s.exp() * off).sum(1, keepdim=True))
        contrast = -((same * log_p).sum(1) / same.sum(1)).mean()
        (F.binary_cross_entropy_with_logits(weak, y) + plc + contrast).backward()
        opt.step()
        if dev.type == "cuda":
            torch.cuda.synchronize()
        print(time.perf_counter() - t0, flush=True)


if a.peer:
    peer(*a.peer.split(","))
    sys.exit(0)


class Process:
    def __init__(self, command):
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line=""):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        answer = self.p.stdout.readline()
        if not answer:
            sys.exit(f"{self.p.args[0]} ended")
        return float(answer)

    def close(self):
        self.p.stdin.close()
        self.p.wait()


THREADS = f"threads={a.threads}"
CASES = [  # name, our options, the peer's dtype and layout, targets of time and memory
    ("float32 contiguous", ["contiguous"], "fp32,contiguous", 0.97, 0.8),
    ("bfloat16 channels-last", ["bf16"], "bf16,channels_last", 0.97, 0.8),
    ("ours with --precision bf16 beside float32 contiguous", ["bf16"], "fp32,contiguous", 2, 0.8),
    ("float32 contiguous, ours with --optimizer-in-backward", ["contiguous", "in-backward"], "fp32,contiguous", 0.97, 0.8),
    ("ours with --precision bf16 --grad-checkpointing head beside float32 contiguous", ["bf16", "checkpoint"], "fp32,contiguous", 0, 0.8),
]
if a.device != "cpu":
    CASES = [(f"{d} {l}",
            ([d] if d == "bf16" else []) + (["contiguous"] if l == "contiguous" else []) + ["device=" + a.device],
            f"{d},{l}", "", "")
             for d, l in (("fp32", "contiguous"), ("bf16", "channels_last"))]
if a.dry:
    for name, ours, theirs, *_ in CASES:
        us = Process([a.side, "lac", THREADS, "dry", *[o for o in ours if not o.startswith("device=")]])
        print("would measure LAC's step,", name, "beside PyTorch", theirs, "on", a.device,
                f"(our small one: {us.ask():.3f} s)", flush=True)
        us.close()
    open(a.out, "w").write("case,threads,rounds,ours_s,peer_s,times_as_fast,lowest,highest,target,"
                           "ours_peak_mib,peer_peak_mib,memory_ratio,memory_target\n")
    sys.exit(0)
rows = []
for name, ours, theirs, time_target, memory_target in CASES:
    if a.only and not any(w in name for w in a.only.split(",")):
        continue
    us = Process([a.side, "lac", THREADS, *ours])
    them = Process([sys.executable, __file__, a.side, a.out, "--threads", str(a.threads), "--device", a.device,
            "--peer", theirs])
    us.ask(), them.ask()  # state of the optimiser, kernels that are made at the first use
    pairs = [(us.ask(), them.ask()) for _ in range(a.rounds)]
    ratio = statistics.median(t / o for o, t in pairs)
    o, t = (statistics.median(x) for x in zip(*pairs))
    mo, mt = us.ask("peak"), them.ask("peak")
    us.close(), them.close()
    rows.append([name, a.threads, a.rounds, f"{o:.2f}", f"{t:.2f}", f"{ratio:.2f}", f"{min(y / x for x, y in pairs):.2f}", f"{max(y / x for x, y in pairs):.2f}",
                 time_target or "", f"{mo:.0f}", f"{mt:.0f}", f"{mo / mt:.2f}", memory_target])
    print(*rows[-1], sep="  ", flush=True)
    with open(a.out, "w", newline="") as f:
        csv.writer(f).writerows([["case", "threads", "rounds", "ours_s", "peer_s", "times_as_fast", "lowest", "highest", "target", "ours_peak_mib", "peer_peak_mib", "memory_ratio", "memory_target"]] + rows)
