"""ViT-B/16 with random weights: ours beside open_clip 3.3 and Hugging Face 5.23, alternating. One process a side, the same number of threads.

Usage: clip.py SIDE DATA OUT.csv [--threads 2] [--rounds 5] [--only image_bf16,…]   SIDE is the program of bench/clip, DATA the data root with data/.
A row is a case: best of ours and of the better peer in milliseconds, the median of the paired ratios peer/ours, and what of the measured matmul peak we reach."""
import argparse, csv, os, random, statistics, subprocess, sys, tempfile, time

p = argparse.ArgumentParser()
p.add_argument("side"); p.add_argument("data"); p.add_argument("out")
p.add_argument("--threads", type=int, default=2)
p.add_argument("--rounds", type=int, default=5)
p.add_argument("--only", default="")
a = p.parse_args()
for v in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[v] = str(a.threads)
os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import torch, open_clip
from open_clip.tokenizer import SimpleTokenizer
from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection
torch.set_num_threads(a.threads); torch.set_grad_enabled(False); torch.manual_seed(0)
side = subprocess.Popen([a.side, "serve", str(a.threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ours(case, n=1):
    side.stdin.write(f"{case} {n}\n" if n else case + "\n"); side.stdin.flush()
    line = side.stdout.readline()
    if not line:
        sys.exit("the Go side ended in " + case)
    return float(line)


def timed(f):
    t = time.perf_counter(); f(); return time.perf_counter() - t


models = {}


def model(kind, dtype):
    if (kind, dtype) not in models:
        if kind == "oc":
            m = open_clip.create_model("ViT-B-16-quickgelu", pretrained=None).eval()
        else:
            m = CLIPVisionModelWithProjection(CLIPVisionConfig(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, image_size=224, patch_size=16,
                                                               projection_dim=512, hidden_act="quick_gelu", attn_implementation="sdpa")).eval()
        models[kind, dtype] = m.bfloat16() if dtype == "bf16" else m
    return models[kind, dtype]


names = []
for f in ("coco", "cub", "nuswide", "voc"):
    names += open(os.path.join(a.data, "data/clip/classnames", f + "_labels.txt")).read().split("\n")
names = [n.split(":")[-1].strip().replace("_", " ") for n in names if n.strip()]
r = random.Random(0)
caps = [f"a {r.choice('small large red blue old wooden rainy busy'.split())} photo of a {r.choice(names)} next to the {r.choice(names)} and a {r.choice(names)}, seen from {r.choice(['above', 'far away', 'the side'])}" for _ in range(10000)]
capfile = os.path.join(tempfile.mkdtemp(), "captions.txt"); open(capfile, "w").write("\n".join(caps))


def peers(case):
    kind, dtype, n = (case.split("_") + ["", ""])[:3]
    half = dtype == "bf16"
    if kind == "image":
        x = torch.randn(int(n), 3, 224, 224)
        oc, hf = model("oc", dtype), model("hf", dtype)
        return {"open_clip": lambda: oc.encode_image(x.bfloat16() if half else x), "hf": lambda: hf(pixel_values=x.bfloat16() if half else x).image_embeds}
    if kind == "text":
        oc, tok = model("oc", dtype), SimpleTokenizer()
        texts = [f"A photo of a thing number {i}." for i in range(int(n))]
        return {"open_clip": lambda: oc.encode_text(tok(texts))}
    import gzip, json
    from transformers import CLIPTokenizerFast
    d = tempfile.mkdtemp()
    lines = gzip.open(os.path.join(a.data, "data/clip/bpe_simple_vocab_16e6.txt.gz")).read().decode().split("\n")[1:48895]
    oc = SimpleTokenizer()
    json.dump({{49406: "<|startoftext|>", 49407: "<|endoftext|>"}.get(i, t): i for t, i in oc.encoder.items()}, open(d + "/vocab.json", "w"))
    open(d + "/merges.txt", "w").write("#version: 0.2\n" + "\n".join(lines) + "\n")
    try:
        ht = CLIPTokenizerFast.from_pretrained(d)
    except Exception:
        ht = CLIPTokenizerFast(vocab=d + "/vocab.json", merges=d + "/merges.txt")
    return {"open_clip": lambda: oc(caps), "rust": lambda: ht.backend_tokenizer.encode_batch_fast(caps)}


flop = {"image": 2 * 196 * 3 * 256 * 768 + 12 * (24 * 197 * 768 * 768 + 4 * 197 * 197 * 768) + 2 * 768 * 512}
peak = {}


def measure_peak(dtype):
    x = torch.randn(2048, 2048, dtype=dtype)
    y = torch.randn(2048, 2048, dtype=dtype)
    return 2 * 2048 ** 3 / min(timed(lambda: torch.mm(x, y)) for _ in range(8)) / 1e9


rows = []
for case in ["tokens", "image_bf16_1", "image_bf16_8", "image_fp32_1", "image_fp32_8", "text_fp32_80", "text_bf16_80", "image_bf16_32"]:
    if a.only and not any(o in case for o in a.only.split(",")):
        continue
    fs = peers(case)
    name = "tokens_" + capfile if case == "tokens" else case
    ours(name)
    for f in fs.values():
        f()
    mine, theirs = [], {k: [] for k in fs}
    for _ in range(a.rounds):
        for k, f in fs.items():
            theirs[k].append(timed(f))
        mine.append(ours(name))
    for k in fs if case == "tokens" else [min(theirs, key=lambda k: min(theirs[k]))]:
        ratio = statistics.median(t / m for t, m in zip(theirs[k], mine))
        row = {"case": case, "peer": k, "threads": a.threads if case != "tokens" else 1, "ours_ms": round(1e3 * min(mine), 3), "peer_ms": round(1e3 * min(theirs[k]), 3),
               "ratio_best": round(min(theirs[k]) / min(mine), 2), "ratio_paired_median": round(ratio, 2), "rounds": a.rounds, "peak_fraction": ""}
        kind, dtype, n = (case.split("_") + ["", ""])[:3]
        if kind == "image":
            if dtype not in peak:
                peak[dtype] = measure_peak(torch.bfloat16 if dtype == "bf16" else torch.float32)
            row["peak_fraction"] = round(int(n) * flop["image"] / min(mine) / 1e9 / peak[dtype], 2)
        rows.append(row)
        print(row, flush=True)
        with open(a.out, "w", newline="") as f:
            w = csv.DictWriter(f, rows[0].keys()); w.writeheader(); w.writerows(rows)
if not a.only or "cosine" in a.only:
    print("least cosine of bfloat16 to float32 features:", ours("cosine", 0))
