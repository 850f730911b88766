"""CLIP's image tower on a card: ours (bench/clip serve-cuda) beside PyTorch's scaled_dot_product_attention in bfloat16, alternating.

Run on a machine with a GPU, in the folder that make gpu-check makes: python clip_cuda.py ./clipbench OUT.csv [--rounds N]
Ratios are PyTorch's time over ours; peak is the share of the card's own bfloat16 matrix product that our time is worth.
The peer is the best of a plain tower, the same compiled, and transformers and open_clip where they are installed.
"""
import argparse, csv, statistics, subprocess, sys, time

p = argparse.ArgumentParser()
p.add_argument("side"), p.add_argument("out"), p.add_argument("--rounds", type=int, default=7), p.add_argument("--device", type=int, default=0)
p.add_argument("--dry", action="store_true", help="say what would be measured; needs no torch")
p.add_argument("--small", action="store_true", help="everything once, tiny and on the CPU: does the script work?")
o = p.parse_args()
SHAPES = {"ViT-B/16": (224, 768, 12, 12, 16, 512),
        "ViT-L/14": (224, 1024, 16, 24, 14, 768)}  # image, width, heads, layers, patch, embedding
CALLS = {1: 50, 8: 30, 32: 20, 256: 5}  # by batch
if o.small:
    SHAPES = {name: (32, 64, 2, 1, shape[4] // 2, 16) for name, shape in SHAPES.items()}
    CALLS, o.rounds = {1: 1, 2: 1}, 1
HEAD = ["model", "batch", "form", "ours_ms", "peer", "peer_ms", "ratio", "low", "high", "peak_share", "peak_tflops"]
if o.dry:
    print("would measure", " and ".join(SHAPES), "in bf16 at batch", ", ".join(map(str, CALLS)),
            "as graphs and eager, beside scaled_dot_product_attention: plain, compiled, transformers, open_clip")
    csv.writer(open(o.out, "w", newline="")).writerow(HEAD)
    sys.exit(0)
import torch
import torch.nn.functional as F

dev = torch.device("cpu") if o.small else torch.device("cuda", o.device)
wait = (lambda: None) if o.small else torch.cuda.synchronize
if not o.small:
    torch.cuda.set_device(dev)
torch.set_grad_enabled(False)


class Block(torch.nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(d), torch.nn.LayerNorm(d)
        self.qkv, self.out = torch.nn.Linear(d, 3 * d), torch.nn.Linear(d, d)
        self.fc, self.proj = torch.nn.Linear(d, 4 * d), torch.nn.Linear(4 * d, d)

    def forward(self, x):
        b, l, d = x.shape
        q, k, v = self.qkv(self.ln_1(x)).view(b, l, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, l, d))
        h = self.fc(self.ln_2(x))
        return x + self.proj(h * torch.sigmoid(1.702 * h))


class Tower(torch.nn.Module):
    def __init__(self, image, d, heads, layers, patch, embed):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, d, patch, patch, bias=False)
        self.cls = torch.nn.Parameter(torch.randn(d) * d**-0.5)
        self.pos = torch.nn.Parameter(torch.randn((image // patch) ** 2 + 1, d) * d**-0.5)
        self.pre, self.post = torch.nn.LayerNorm(d), torch.nn.LayerNorm(d)
        self.blocks = torch.nn.Sequential(*(Block(d, heads) for _ in range(layers)))
        self.head = torch.nn.Parameter(torch.randn(d, embed) * d**-0.5)

    def forward(self, x):
        x = self.conv(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), 1, -1), x], 1) + self.pos
        return self.post(self.blocks(self.pre(x))[:, 0]) @ self.head


def flops(image, d, heads, layers, patch, embed):
    """Of one picture: the whole tower, as the peer computes it."""
    l = (image // patch) ** 2 + 1
    return layers * (24 * l * d * d + 4 * l * l * d) + 2 * (l - 1) * 3 * patch * patch * d + 2 * d * embed


def timed(f, iterations):
    wait()
    start = time.perf_counter()
    for _ in range(iterations):
        f().float().cpu()  # as ours: the features are on the CPU
    return (time.perf_counter() - start) / iterations


def matmul_peak():
    n = 64 if o.small else 8192
    a, b = (torch.randn(n, n, device=dev, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5): a @ b
    best = 0
    for _ in range(10):
        wait(); start = time.perf_counter()
        for _ in range(10): a @ b
        wait()
        best = max(best, 10 * 2 * n**3 / (time.perf_counter() - start))
    return best


ours = subprocess.Popen([o.side, "serve-cuda", str(o.device)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(line):
    ours.stdin.write(line + "\n"); ours.stdin.flush()
    answer = ours.stdout.readline()
    if not answer: raise SystemExit(f"our side ended at {line!r}")
    return float(answer)


peak, rows = matmul_peak(), []
card = "CPU" if o.small else torch.cuda.get_device_name(dev)
print(f"{card}: bfloat16 matrix product {peak / 1e12:.0f} TFLOP/s", flush=True)
for name, shape in SHAPES.items():
    peers = {"pytorch": Tower(*shape).to(dev, torch.bfloat16).eval()}
    peers["compiled"] = torch.compile(peers["pytorch"], backend="eager" if o.small else "inductor")
    try:
        from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection
        image, d, heads, layers, patch, embed = shape
        config = CLIPVisionConfig(hidden_size=d, intermediate_size=4 * d, num_hidden_layers=layers,
                num_attention_heads=heads, image_size=image, patch_size=patch, projection_dim=embed,
                                  hidden_act="quick_gelu", attn_implementation="sdpa")
        tower = CLIPVisionModelWithProjection(config).to(dev, torch.bfloat16).eval()
        peers["transformers"] = lambda x, tower=tower: tower(pixel_values=x).image_embeds
    except Exception as e:
        print(f"without transformers: {e}")
    try:
        import open_clip
        peers["open_clip"] = open_clip.create_model(name.replace("/", "-"), precision="pure_bf16", device=dev).visual.eval()
    except Exception as e:
        print(f"without open_clip: {e}")
    for batch, n in CALLS.items():
        x = torch.randn(batch, 3, shape[0], shape[0], device=dev, dtype=torch.bfloat16)
        for k in list(peers):
            try:
                peers[k](x)  # compiles
            except Exception as e:  # one form must not end the others
                print(f"{name} batch {batch}: {k} fails: {str(e).splitlines()[0]}")
                del peers[k]
        times = {k: [] for k in [*peers, "graphs", "eager"]}
        for r in range(o.rounds + 1):
            for k, m in peers.items():
                t = timed(lambda: m(x), n)
                if r: times[k].append(t)
            for k in ("graphs", "eager"):
                t = ask(f"{name} bf16 {batch} {k} {n}")
                if r: times[k].append(t)
        best = min(peers, key=lambda k: statistics.median(times[k]))
        for k in ("graphs", "eager"):
            ratios = [a / b for a, b in zip(times[best], times[k])]
            mine = statistics.median(times[k])
            rows.append(dict(model=name, batch=batch, form=k, ours_ms=f"{1e3 * mine:.3f}", peer=best, peer_ms=f"{1e3 * statistics.median(times[best]):.3f}", ratio=f"{statistics.median(ratios):.2f}",
                             low=f"{min(ratios):.2f}", high=f"{max(ratios):.2f}", peak_share=f"{batch * flops(*shape) / mine / peak:.2f}", peak_tflops=f"{peak / 1e12:.0f}"))
            print(rows[-1], flush=True)
    del peers
ours.stdin.close()
with open(o.out, "w", newline="") as f:
    w = csv.DictWriter(f, HEAD)
    w.writeheader(), w.writerows(rows)
