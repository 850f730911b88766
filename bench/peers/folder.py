"""A folder of JPEG files to labels beside PyTorch's DataLoader and ONNX Runtime behind Pillow, taking turns. Run
through `make bench-folder`.

Usage: folder.py SIDE PHOTOS OUT.csv [--networks a,b] [--count 400] [--rounds 5]
Random weights, 224 x 224, 80 classes, all cores. A row gives images per second (medians over the rounds), our decoding
and our network measured alone, what decoding and network on the same cores allow (they do not overlap more than the
cores do), and the peaks of resident memory, of all processes of a side. GOSPML_ONNX is the folder for exported
networks."""
import argparse, csv, glob, os, statistics, subprocess, sys, time

p = argparse.ArgumentParser()
p.add_argument("side")
p.add_argument("photos")
p.add_argument("out")
p.add_argument("--networks", default="mobilenet_v2,resnet50")
p.add_argument("--count", type=int, default=400, help="files")
p.add_argument("--rounds", type=int, default=5)
p.add_argument("--peer", default="", help=argparse.SUPPRESS)
a = p.parse_args()
cores = os.cpu_count()
files = sorted(glob.glob(os.path.join(a.photos, "*.jpg")))[:a.count]


def peak():
    """MiB of this process and of its children, which are alive."""
    total = 0
    own = str(os.getpid())
    children = subprocess.run(["pgrep", "-P", own], capture_output=True, text=True).stdout.split()
    for pid in [own, *children]:
        try:
            with open(f"/proc/{pid}/status") as f:
                total += sum(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
        except FileNotFoundError:
            pass  # it has ended since
    return total // 1024


def pytorch(network):
    import torch, torchvision
    from PIL import Image
    T = torchvision.transforms
    tx = T.Compose([T.Resize((224, 224)), T.ToTensor(), T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])

    class Photos(torch.utils.data.Dataset):
        def __len__(self):
            return len(files)

        def __getitem__(self, i):
            return tx(Image.open(files[i]).convert("RGB"))
    torch.set_num_threads(cores)
    m = getattr(torchvision.models, network)(num_classes=80).eval().to(memory_format=torch.channels_last)
    top = 0
    with torch.inference_mode():
        m(torch.zeros(1, 3, 224, 224))
        t = time.perf_counter()
        for x in torch.utils.data.DataLoader(Photos(), batch_size=16, num_workers=cores):
            m(x.to(memory_format=torch.channels_last)).sigmoid().numpy()
            top = max(top, peak())
        return len(files) / (time.perf_counter() - t), top


def exported(network):
    return os.path.join(os.environ["GOSPML_ONNX"], f"{network}_1.onnx")


def export(network):
    import torch, torchvision
    m = getattr(torchvision.models, network)(num_classes=80).eval()
    torch.onnx.export(m, (torch.zeros(1, 3, 224, 224),), exported(network), dynamo=False, opset_version=17)
    return ()


def onnxruntime(network):
    import concurrent.futures
    import numpy as np, onnxruntime
    from PIL import Image
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads, o.inter_op_num_threads = 1, 1  # a photo on each core, as ours
    s = onnxruntime.InferenceSession(exported(network), o, providers=["CPUExecutionProvider"])
    name = s.get_inputs()[0].name
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])

    def one(path):
        x = np.asarray(Image.open(path).convert("RGB").resize((224, 224), Image.BILINEAR), np.float32) / 255
        return 1 / (1 + np.exp(-s.run(None, {name: ((x - mean) / std).transpose(2, 0, 1)[None]})[0]))
    one(files[0])
    with concurrent.futures.ThreadPoolExecutor(cores) as pool:
        t = time.perf_counter()
        list(pool.map(one, files))
        return len(files) / (time.perf_counter() - t), peak()


if a.peer:
    engine, network = a.peer.split(":")
    print(*{"pytorch": pytorch, "onnxruntime": onnxruntime, "export": export}[engine](network))
    sys.exit(0)


def ask(*command):
    return [float(x) for x in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()]


def peer(engine, network):
    return ask(sys.executable, os.path.abspath(__file__), a.side, a.photos, a.out, "--count", str(a.count), "--peer",
               f"{engine}:{network}")


HEAD = ["network", "photos", "cores", "rounds", "ours_per_s", "decoding_per_s", "network_per_s", "of_slower_alone",
        "of_both_on_these_cores", "pytorch_per_s", "times_pytorch", "onnxruntime_per_s", "times_onnxruntime",
        "ours_mib", "pytorch_mib", "onnxruntime_mib"]
rows = []
for network in a.networks.split(","):
    if not os.path.exists(exported(network)):
        peer("export", network)
    got = {"ours": [], "pytorch": [], "onnxruntime": []}
    for _ in range(a.rounds):
        got["ours"].append(ask(a.side, "folder", network, a.photos, str(a.count)))
        for e in ("pytorch", "onnxruntime"):
            got[e].append(peer(e, network))
    mid = {e: [statistics.median(x) for x in zip(*rounds)] for e, rounds in got.items()}
    ours, decoding, computing, memory = mid["ours"]
    peers = []
    for e in ("pytorch", "onnxruntime"):
        peers += [f"{mid[e][0]:.1f}", f"{statistics.median(o[0] / x[0] for o, x in zip(got['ours'], got[e])):.2f}"]
    rows.append([network, len(files), cores, a.rounds, *[f"{x:.1f}" for x in (ours, decoding, computing)],
                 f"{statistics.median(r[0] / min(r[1], r[2]) for r in got['ours']):.2f}",
                 f"{statistics.median(r[0] * (1 / r[1] + 1 / r[2]) for r in got['ours']):.2f}",
                 *peers, f"{memory:.0f}", f"{mid['pytorch'][1]:.0f}", f"{mid['onnxruntime'][1]:.0f}"])
    print(*rows[-1], sep="  ", flush=True)
    with open(a.out, "w", newline="") as f:
        csv.writer(f).writerows([HEAD] + rows)
