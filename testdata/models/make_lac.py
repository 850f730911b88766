"""LAC's decoder, contrast and training steps of both stages, transcribed from the paper's section 3 and the release in PyTorch (float64, no dropout), for
drawn configurations: a file that `golden check` reads.

Usage: make_lac.py SEED OUT.json"""
import json, math, random, sys, zlib
import numpy as np, torch
from torch import nn
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


def det(name, shape, scale, offset=0.0):
    i = np.arange(int(np.prod(shape)), dtype=np.uint64)
    m = np.uint64(0xFFFFFFFF)
    h = (i * np.uint64(2654435761) + np.uint64(zlib.crc32(name.encode()))) & m
    h ^= h >> np.uint64(15)
    h = (h * np.uint64(2246822519)) & m
    h ^= h >> np.uint64(13)
    return torch.tensor(offset + scale * ((h >> np.uint64(8)).astype(np.float64) / 2**24 - 0.5)).reshape(list(shape))


class Layer(nn.Module):
    def __init__(self, d, heads, ffn, encoder):
        super().__init__()
        self.at = "self_attn" if encoder else "multihead_attn"
        setattr(self, self.at, nn.MultiheadAttention(d, heads, batch_first=True))
        self.linear1, self.linear2 = nn.Linear(d, ffn), nn.Linear(ffn, d)
        self.n = ("norm1", "norm2") if encoder else ("norm2", "norm3")
        for n in self.n:
            setattr(self, n, nn.LayerNorm(d))

    def forward(self, x, q, k, v):
        a, w = getattr(self, self.at)(q, k, v)
        x = getattr(self, self.n[0])(x + a)
        return getattr(self, self.n[1])(x + self.linear2(F.relu(self.linear1(x)))), w


class Decoder(nn.Module):
    def __init__(self, c, proj):
        super().__init__()
        d, classes = c["d"], c["classes"]
        self.encoder = nn.Module()
        self.encoder.encoder, self.encoder.decoder = nn.Module(), nn.Module()
        self.encoder.encoder.layers = nn.ModuleList([Layer(d, c["heads"], c["ffn"], True)])
        self.encoder.decoder.layers = nn.ModuleList([Layer(d, c["heads"], c["ffn"], False) for _ in range(2)])
        self.encoder.decoder.norm = nn.LayerNorm(d)
        self.query_embed = nn.Embedding(classes, d)
        self.fc = nn.Module()
        self.fc.W, self.fc.b = nn.Parameter(torch.zeros(1, classes, d)), nn.Parameter(torch.zeros(1, classes))
        if proj:
            self.proj = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, c["zdim"]))
        f, h, w = d // 2, c["h"], c["w"]
        i = torch.arange(f)
        t = 10000 ** (2 * torch.div(i, 2, rounding_mode="floor") / f)
        y = (torch.arange(h) + 1) / (h + 1e-6) * 2 * math.pi
        x = (torch.arange(w) + 1) / (w + 1e-6) * 2 * math.pi
        code = lambda v: torch.where(i % 2 == 0, (v[:, None] / t).sin(), (v[:, None] / t).cos())
        self.pos = torch.cat((code(y)[:, None].expand(h, w, f), code(x)[None].expand(h, w, f)), -1).reshape(h * w, d)
        with torch.no_grad():
            for name, p in self.named_parameters():
                gain = p.dim() == 1 and name.endswith(".weight")
                p.copy_(det(name, p.shape, 1 if gain else c.get("scale", 0.5), 1 if gain else 0))

    def forward(self, x):
        m = x.flatten(2).transpose(1, 2)
        m, _ = self.encoder.encoder.layers[0](m, m + self.pos, m + self.pos, m)
        q = self.query_embed.weight[None].expand(len(x), -1, -1)
        t = torch.zeros_like(q)
        for layer in self.encoder.decoder.layers:
            t, w = layer(t, t + q, m + self.pos, m)
        f = self.encoder.decoder.norm(t)
        z = F.normalize(self.proj(f), dim=-1) if hasattr(self, "proj") else None
        return (self.fc.W * f).sum(-1) + self.fc.b, z, w


def summary(t):
    v = t.detach().flatten()
    return {"shape": list(t.shape), "sum": v.sum().item(), "sumsq": (v * v).sum().item(), "abs_max": v.abs().max().item(), "first": v[:8].tolist()}


def supcon(x, labels, tau):
    v, l = torch.cat((x[:, 0], x[:, 1])), torch.cat((labels, labels))
    s = v @ v.t() / tau
    s = s - s.max(1, keepdim=True).values.detach()
    off = 1 - torch.eye(len(v))
    same = (l[:, None] == l[None]).double() * off
    log_p = s - torch.log((s.exp() * off).sum(1, keepdim=True))
    return -((same * log_p).sum(1) / same.sum(1)).mean()


def forward(c):
    m = Decoder(c, True)
    x = det(c["input"], [c["batch"], c["d"], c["h"], c["w"]], 4).requires_grad_()
    y, z, w = m(x)
    ((y * det(c["input"] + ":grad_logits", y.shape, 2)).sum() + (z * det(c["input"] + ":grad_z", z.shape, 2)).sum()).backward()
    return {"config": c, "logits": y.tolist(), "z": z.tolist(), "last_cross_attention_head_mean": w.tolist(), "backward": "as in the first file",
            "grad_input": summary(x.grad), "grad_parameters": {k: summary(p.grad) for k, p in m.named_parameters()},
            "parameter_shapes": {k: list(p.shape) for k, p in m.named_parameters()}}


def contrast(r, name):
    m, k, d, tau = r.randint(2, 9), r.randint(1, 4), r.randint(2, 6), r.choice([0.1, 0.5, 1.0])
    x = F.normalize(torch.tensor(np.random.RandomState(r.randint(0, 9999)).randn(m, 2, d)), dim=-1)
    labels = torch.tensor([r.randint(1, k) for _ in range(m)])
    x = torch.tensor(x.tolist()).requires_grad_()
    l = supcon(x, labels, tau)
    l.backward()
    return {"name": name, "tau": tau, "features": x.tolist(), "labels": labels.tolist(), "loss": l.item(), "grad_features": x.grad.tolist()}


def steps(c, second):
    m = Decoder(c, second)
    b, C = c["batch"], c["classes"]

    def maps(s):
        shape = [b, c["d"], c["h"], c["w"]]
        weak = det(f"input:{c['name']}:weak{s}", shape, 4)
        return torch.cat((weak, weak + det(f"input:{c['name']}:noise{s}", shape, 1)))

    out = {"config": c, "what": "as in the first file", "logits_before_step_1": m(maps(0))[0].tolist()}
    opt = torch.optim.AdamW(m.parameters(), lr=1e-3, weight_decay=0.01, eps=1e-8)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=c["max_lr"], total_steps=c["total_steps"], pct_start=0.2)
    ema = [p.detach().clone() for p in m.parameters()]
    queue, ids, at = torch.zeros(c["K"], 2, c["zdim"]), torch.zeros(c["K"], dtype=torch.long), 0
    rows, total = [], 0.0
    for s in range(c["steps"]):
        row = {"lr_used": opt.param_groups[0]["lr"], "beta1_used": opt.param_groups[0]["betas"][0]}
        seen = F.one_hot(torch.tensor(c["observed"][s]), C).double()
        y, z, _ = m(maps(s))
        q = y[:b].detach().sigmoid() + seen
        hard, mask = (q >= c["delta"]).double(), ((q >= c["delta"]) | (q < 1 - c["delta"])).double()
        an = F.binary_cross_entropy_with_logits(y[:b], seen)
        plc = (F.binary_cross_entropy_with_logits(y[b:], hard, reduction="none") * mask).sum() / mask.sum()
        loss = an + plc
        row["L_an"], row["L_plc"] = an.item(), plc.item()
        if second:
            i, k = torch.nonzero(hard, as_tuple=True)
            n = len(k)
            if n < 2 or n > c["K"]:
                return None  # the release writes a single pair twice, and more than K not at all
            if at + n >= c["K"]:
                at = 0
            queue = queue.detach().clone()
            queue[at:at + n], ids[at:at + n] = torch.stack((z[:b][i, k], z[b:][i, k]), 1), k + 1
            at += n
            full = ids != 0
            lac = supcon(queue[full], ids[full], c["tau"])
            loss = loss + lac
            row["L_lac"] = lac.item()
        opt.zero_grad()
        loss.backward()
        row["Loss"] = loss.item()
        total += loss.item()
        row["grad_norm"] = math.sqrt(sum((p.grad**2).sum().item() for p in m.parameters()))
        opt.step()
        sched.step()
        with torch.no_grad():
            for e, p in zip(ema, m.parameters()):
                e.mul_(0.9997).add_(p, alpha=0.0003)
        row["param_sum"] = sum(p.sum().item() for p in m.parameters())
        row["param_sumsq"] = sum((p**2).sum().item() for p in m.parameters())
        row["ema_sum"] = sum(e.sum().item() for e in ema)
        if second:
            row["queue"] = {"labels": ids.tolist(), "view0_first_value": queue[:, 0, 0].tolist(), "view1_last_value": queue[:, 1, -1].tolist()}
        rows.append(row)
    out.update(steps=rows, average_loss=total / c["steps"], logits_after_last_step_on_last_batch=m(maps(c["steps"] - 1))[0].tolist(),
               final_parameters={k: summary(p) for k, p in m.named_parameters()}, final_fc={"W": summary(m.fc.W), "b": m.fc.b.tolist()})
    if second:
        out.update(queue_pointer_end=at, queue_labels_end=ids.tolist(), queue_features_end=queue.tolist())
    return out


def draw(r):
    heads = r.choice([1, 2, 4])
    return {"d": 4 * heads * r.randint(1, 3), "heads": heads, "ffn": r.randint(3, 40), "classes": r.randint(2, 9), "zdim": r.randint(2, 8), "h": r.randint(1, 4),
            "w": r.randint(1, 5), "batch": r.randint(1, 4)}


seed, path = int(sys.argv[1]), sys.argv[2]
r = random.Random(seed)
torch.autograd.set_detect_anomaly(False)
file = {"forward": [forward({**draw(r), "input": f"input:fuzz{seed}-{i}"}) for i in range(2)], "supcon": [contrast(r, f"s{i}") for i in range(3)]}
for second in (False, True):
    made = None
    while made is None:
        c = {**draw(r), "name": f"fuzz{seed}", "steps": r.randint(3, 6), "delta": r.choice([0.5, 0.6, 0.7, 0.9]), "tau": r.choice([0.1, 0.5, 1.0]), "K": r.randint(4, 30),
             "max_lr": r.choice([1e-4, 1e-3]), "total_steps": r.randint(8, 20), "scale": 0.5}
        c["observed"] = [[r.randrange(c["classes"]) for _ in range(c["batch"])] for _ in range(c["steps"])]
        made = steps(c, second)
    file["stage2_steps" if second else "stage1_steps"] = made
json.dump(file, open(path, "w"))
