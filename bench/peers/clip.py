"""ViT-B/16 with random weights: ours beside open_clip 3.3 and Hugging Face 5.23, alternating. One process a side, the same number of threads.

Usage: clip.py SIDE DATA OUT.csv [--threads 2] [--rounds 5] [--only image_bf16,text,start,…]   SIDE is the program of bench/clip, DATA the data root with data/.
A row is a case: best of ours and of the better peer in milliseconds, the median of the paired ratios peer/ours, and what of the measured matmul peak we reach."""
import argparse, csv, gzip, json, os, random, statistics, subprocess, sys, tempfile, time

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
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModelWithProjection, CLIPTokenizerFast, CLIPVisionConfig, CLIPVisionModelWithProjection
torch.set_num_threads(a.threads); torch.set_grad_enabled(False); torch.manual_seed(0)
side = subprocess.Popen([a.side, "serve", str(a.threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ours(case, n=1):
    side.stdin.write(f"{case} {n}\n" if n else case + "\n"); side.stdin.flush()
    line = side.stdout.readline()
    if not line:
        sys.exit("the Go side ended in " + case)
    return float(line)


def kind_of(case):
    return case.split("_")[0]


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


def text_model(dtype):
    if ("text", dtype) not in models:
        m = CLIPTextModelWithProjection(CLIPTextConfig(hidden_size=512, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=8, projection_dim=512, hidden_act="quick_gelu",
                                                       attn_implementation="sdpa")).eval()
        models["text", dtype] = m.bfloat16() if dtype == "bf16" else m
    return models["text", dtype]


def rust_tokenizer():
    d = tempfile.mkdtemp()
    lines = gzip.open(os.path.join(a.data, "data/clip/bpe_simple_vocab_16e6.txt.gz")).read().decode().split("\n")[1:48895]
    json.dump({{49406: "<|startoftext|>", 49407: "<|endoftext|>"}.get(i, t): i for t, i in SimpleTokenizer().encoder.items()}, open(d + "/vocab.json", "w"))
    open(d + "/merges.txt", "w").write("#version: 0.2\n" + "\n".join(lines) + "\n")
    try:
        return CLIPTokenizerFast.from_pretrained(d)
    except Exception:
        return CLIPTokenizerFast(vocab=d + "/vocab.json", merges=d + "/merges.txt")


START = {
    "open_clip": """
import torch, open_clip
from PIL import Image
torch.set_num_threads({threads}); torch.set_grad_enabled(False)
m, _, tx = open_clip.create_model_and_transforms("local-dir:{folder}/open_clip"); m.eval()
print(m.encode_image(tx(Image.open({photo!r})).unsqueeze(0))[0, 0].item())
print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])""",
    "hf": """
import torch
from PIL import Image
from transformers import CLIPModel, CLIPImageProcessor
torch.set_num_threads({threads}); torch.set_grad_enabled(False)
m = CLIPModel.from_pretrained("{folder}/hf").eval(); p = CLIPImageProcessor.from_pretrained("{folder}/hf")
print(m.get_image_features(**p(Image.open({photo!r}), return_tensors="pt")).pooler_output[0, 0].item())
print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])""",
}


def start():
    """Whole processes with warm file caches: from the start to the first number of one photo's embedding; seconds and peak memory in MiB."""
    photo = sorted(os.path.join(d, f) for d, _, fs in os.walk(os.path.join(a.data, "data")) for f in fs if f.endswith(".jpg"))[0]
    folder = tempfile.mkdtemp()
    m = open_clip.create_model("ViT-B-16-quickgelu", pretrained=None)
    os.makedirs(folder + "/open_clip")
    save_file({k: v.contiguous() for k, v in m.state_dict().items() if k != "attn_mask"}, folder + "/open_clip/open_clip_model.safetensors")
    cfg = open_clip.get_model_config("ViT-B-16-quickgelu")
    json.dump({"model_cfg": cfg, "preprocess_cfg": {"mean": list(open_clip.OPENAI_DATASET_MEAN), "std": list(open_clip.OPENAI_DATASET_STD)}}, open(folder + "/open_clip/open_clip_config.json", "w"))
    subprocess.run([a.side, "export", folder + "/open_clip", folder + "/hf"], check=True)
    commands = {k: [sys.executable, "-c", code.format(threads=a.threads, folder=folder, photo=photo)] for k, code in START.items()}
    for k, dtype in (("fp32", "float32"), ("bf16", "bfloat16")):
        commands["ours " + k] = [a.side, "first", folder + "/open_clip", photo, dtype, str(a.threads)]
    def spawn(cmd):
        t = time.perf_counter()
        p = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        out = p.stdout.read()
        if p.wait():
            sys.exit(f"{cmd} ended with {p.returncode}")
        number, kb = out.split()
        return time.perf_counter() - t, int(kb) / 1024, float(number)
    for c in commands.values():
        spawn(c)
    got = {k: [] for k in commands}
    for _ in range(a.rounds):
        for k, c in commands.items():
            got[k].append(spawn(c))
    first = {k: v[0][2] for k, v in got.items()}
    print("first numbers:", first)
    seconds = {k: min(x[0] for x in v) for k, v in got.items()}
    memory = {k: min(x[1] for x in v) for k, v in got.items()}
    for mine in ("fp32", "bf16"):
        peer = min(START, key=seconds.get)
        ratio = statistics.median(t[0] / m[0] for t, m in zip(got[peer], got["ours " + mine]))
        add({"case": "start_" + mine, "peer": peer, "threads": a.threads, "ours_ms": round(1e3 * seconds["ours " + mine], 1), "peer_ms": round(1e3 * seconds[peer], 1),
             "ratio_best": round(seconds[peer] / seconds["ours " + mine], 2), "ratio_paired_median": round(ratio, 2), "rounds": a.rounds, "peak_fraction": ""})
        peer = min(START, key=memory.get)
        add({"case": f"start_{mine}_peak_MiB", "peer": peer, "threads": a.threads, "ours_ms": round(memory["ours " + mine]), "peer_ms": round(memory[peer]),
             "ratio_best": round(memory[peer] / memory["ours " + mine], 2), "ratio_paired_median": round(memory[peer] / memory["ours " + mine], 2), "rounds": a.rounds, "peak_fraction": ""})


def damp(dtype):
    """The released pattern of DAMP: all 17 views of two photos in one call, and all text features anew with the noise of the label graph. Photos are decoded beforehand."""
    import glob, torchvision.transforms as T
    from PIL import Image
    global damp_photos
    damp_photos = sorted(glob.glob(os.path.join(a.data, "data/coco/coco128/*/*.jpg")))[:2]
    oc, tok, C, g = model("oc", dtype), SimpleTokenizer(), 80, 4
    half = dtype == "bf16"
    ids, ims, obs = tok([f"a photo of a thing {i}." for i in range(C)]), [Image.open(f).convert("RGB") for f in damp_photos], [0, 1]
    tx = T.Compose([T.Resize((224, 224)), T.RandomHorizontalFlip(0.5), T.ToTensor(), T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    ws, adj = [torch.randn(512, 1024) / 32, torch.randn(1024, 1024) / 32, torch.randn(1024, 512) / 22.6], torch.softmax(torch.randn(C, C), -1)

    def views(im):
        w, h = im.width // g, im.height // g
        return torch.stack([tx(im)] + [tx(im.crop((x * w, y * h, (x + 1) * w, (y + 1) * h))) for y in range(g) for x in range(g)])

    def text():
        h0 = oc.encode_text(ids).float()
        h = torch.nn.functional.leaky_relu(adj @ (h0 @ ws[0]), 0.2)
        h = torch.nn.functional.leaky_relu(adj @ (h @ ws[1]), 0.2)
        return torch.nn.functional.normalize(h0 + adj @ (h @ ws[2]), dim=-1)

    def labels(s):
        glob, loc = s[:, 0], s[:, 1:]
        zl, mx = glob[torch.arange(len(s)), torch.tensor(obs)].clamp(max=0.3)[:, None], loc.amax(1)
        v, i = ((glob + torch.where(mx > zl, mx, loc.amin(1))) / 2).topk(3, dim=1)
        lab = torch.zeros(len(s), C).scatter_(1, i, (v >= 0.5).float())
        return lab.scatter_(1, ((glob + loc.mean(1)) / 2).topk(int(0.3 * C), dim=1, largest=False).indices, 0.0)

    def released():
        t, x = text(), torch.cat([views(im) for im in ims])
        f = torch.nn.functional.normalize(oc.encode_image(x.bfloat16() if half else x).float(), dim=-1)
        return labels(torch.softmax(f @ t.T / 0.01, -1).view(len(ims), 17, C))
    return {"released": released}, {"pillow": lambda: [views(im) for im in ims], "pillow with decoding": lambda: [views(Image.open(f).convert("RGB")) for f in damp_photos]}


def peers(case):
    kind, dtype, n = (case.split("_") + ["", ""])[:3]
    half = dtype == "bf16"
    if kind == "image":
        x = torch.randn(int(n), 3, 224, 224)
        oc, hf = model("oc", dtype), model("hf", dtype)
        return {"open_clip": lambda: oc.encode_image(x.bfloat16() if half else x), "hf": lambda: hf(pixel_values=x.bfloat16() if half else x).image_embeds}
    if kind == "text":
        oc, tok = model("oc", dtype), SimpleTokenizer()
        ht, rust = text_model(dtype), rust_tokenizer()
        texts = [f"A photo of a thing number {i}." for i in range(int(n))]
        return {"open_clip": lambda: oc.encode_text(tok(texts)), "hf max_length": lambda: ht(**rust(texts, padding="max_length", max_length=77, truncation=True, return_tensors="pt")).text_embeds,
                "hf longest": lambda: ht(**rust(texts, padding=True, truncation=True, return_tensors="pt")).text_embeds}
    if kind == "damp":
        return damp("fp32")[0]  # the released program's type
    if kind == "views":
        return damp("fp32")[1]
    oc, ht = SimpleTokenizer(), rust_tokenizer()
    return {"open_clip": lambda: oc(caps), "rust": lambda: ht.backend_tokenizer.encode_batch_fast(caps)}


flop = {"image": 2 * 196 * 3 * 256 * 768 + 12 * (24 * 197 * 768 * 768 + 4 * 197 * 197 * 768) + 2 * 768 * 512}
peak = {}


def measure_peak(dtype):
    x = torch.randn(2048, 2048, dtype=dtype)
    y = torch.randn(2048, 2048, dtype=dtype)
    return 2 * 2048 ** 3 / min(timed(lambda: torch.mm(x, y)) for _ in range(8)) / 1e9


rows = []


def add(row):
    """Cases of earlier runs in the same file stay."""
    rows.append(row)
    print(row, flush=True)
    old = list(csv.DictReader(open(a.out))) if os.path.exists(a.out) else []
    keep = [o for o in old if o["case"] not in {r["case"] for r in rows}]
    with open(a.out, "w", newline="") as f:
        w = csv.DictWriter(f, row.keys()); w.writeheader(); w.writerows(sorted(keep + rows, key=lambda r: (r["case"], r["peer"])))


for case in ["tokens", "image_bf16_1", "image_bf16_8", "image_fp32_1", "image_fp32_8", "text_fp32_80", "text_bf16_80", "image_bf16_32", "image_fp32_32", "views", "damp_fp32", "damp_bf16"]:
    if not a.only and kind_of(case) in ("views", "damp"):
        continue  # their own table
    if a.only and not any(o in case for o in a.only.split(",")):
        continue
    fs = peers(case)
    name = "tokens_" + capfile if case == "tokens" else case
    if kind_of(case) in ("damp", "views"):
        name += ("_" if case != "views" else "__") + ",".join(damp_photos)
    ours(name)
    for f in fs.values():
        f()
    mine, theirs = [], {k: [] for k in fs}
    calls = 8 if case == "views" else 4 if case.endswith("_1") else 1  # a short call right after the other side's would meet its waiting threads
    for _ in range(a.rounds):
        for k, f in fs.items():
            theirs[k].append(timed(lambda: [f() for _ in range(calls)]) / calls)
        mine.append(ours(name, calls))
    for k in fs if case in ("tokens", "views") or case.startswith("text") else [min(theirs, key=lambda k: min(theirs[k]))]:
        ratio = statistics.median(t / m for t, m in zip(theirs[k], mine))
        row = {"case": case, "peer": k, "threads": a.threads if case != "tokens" else 1, "ours_ms": round(1e3 * min(mine), 3), "peer_ms": round(1e3 * min(theirs[k]), 3),
               "ratio_best": round(min(theirs[k]) / min(mine), 2), "ratio_paired_median": round(ratio, 2), "rounds": a.rounds, "peak_fraction": ""}
        kind, dtype, n = (case.split("_") + ["", ""])[:3]
        if kind == "image":
            if dtype not in peak:
                peak[dtype] = measure_peak(torch.bfloat16 if dtype == "bf16" else torch.float32)
            row["peak_fraction"] = round(int(n) * flop["image"] / min(mine) / 1e9 / peak[dtype], 2)
        add(row)
if not a.only or "start" in a.only:
    start()
if not a.only or "cosine" in a.only:
    print("least cosine of bfloat16 to float32 features:", ours("cosine", 0))
