"""Inference of whole networks beside the engines that people would take, alternating. Run through `make bench-infer`.

Usage: infer.py SIDE OUT.csv [--networks a,b] [--batches 1,8,32] [--threads 1,2] [--engines a,b] [--rounds 9]
[--seconds 0.5]
Random weights, 224 x 224, float32, 80 classes. Every engine is a process of its own that waits while another computes.
A row gives our median time, that of the fastest peer, the median of the paired ratios to it with a 95 % bootstrap
interval, our times in bfloat16 and in the plain form that training scores with, and the share of the machine's float32
peak, measured beside it, that both reach; our time in int8, OpenVINO's (quantized by NNCF), and the medians of the
paired ratios of our float32 and of OpenVINO's int8 to ours in int8. Both are calibrated on noise: this is about time.
A form that the processor or the engine lacks is nan. GOSPML_ONNX is the folder for exported networks."""
import argparse, contextlib, csv, os, statistics, subprocess, sys, time

import paired

ENGINES = ["eager", "channels_last", "jit_frozen", "compiled", "onnxruntime", "openvino"]
INT8 = "openvino_int8"
NETWORKS = {"mobilenet_v2": "mobilenet_v2", "resnet50": "resnet50", "convnext_tiny": "convnext_tiny",
            "vit_base_patch16": "vit_b_16"}
# Of an image at 224: two for each multiply-add.
GFLOP = {"mobilenet_v2": 0.601, "resnet50": 8.178, "convnext_tiny": 8.912, "vit_base_patch16": 35.13}

p = argparse.ArgumentParser()
p.add_argument("side")
p.add_argument("out")
p.add_argument("--networks", default=",".join(NETWORKS))
p.add_argument("--batches", default="1,8,32")
p.add_argument("--threads", default="1,2")
p.add_argument("--engines", default=",".join(ENGINES))
p.add_argument("--rounds", type=int, default=9)
p.add_argument("--seconds", type=float, default=0.5, help="length of one sample")
p.add_argument("--peer", default="", help=argparse.SUPPRESS)
a = p.parse_args()


def calls(network, batch, engine, threads):
    """The function that one call of an engine is."""
    import torch, torchvision
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    m = getattr(torchvision.models, NETWORKS[network])(num_classes=80).eval()
    x = torch.randn(batch, 3, 224, 224)
    if engine == "eager":
        return lambda: m(x)
    if engine == "channels_last":
        m, x = m.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        return lambda: m(x)
    if engine == "jit_frozen":
        j = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(m, x)))
        return lambda: j(x)
    if engine == "compiled":
        import torch._inductor.config
        torch._inductor.config.freezing = True
        c = torch.compile(m)
        return lambda: c(x)
    path = os.path.join(os.environ["GOSPML_ONNX"], f"{network}_{batch}.onnx")
    if not os.path.exists(path):
        torch.onnx.export(m, (x,), path + ".tmp", dynamo=False, opset_version=17)
        os.rename(path + ".tmp", path)
    x = x.numpy()
    if engine == "onnxruntime":
        import onnxruntime
        o = onnxruntime.SessionOptions()
        o.intra_op_num_threads, o.inter_op_num_threads = threads, 1
        s = onnxruntime.InferenceSession(path, o, providers=["CPUExecutionProvider"])
        name = s.get_inputs()[0].name
        return lambda: s.run(None, {name: x})
    import openvino
    core = openvino.Core()
    how = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    read = core.read_model(path)
    if engine == INT8:
        with contextlib.redirect_stdout(sys.stderr):  # its bars; ours are the answers
            import nncf
            noise = [torch.randn(batch, 3, 224, 224).numpy() for _ in range(4)]
            read = nncf.quantize(read, nncf.Dataset(noise), subset_size=len(noise))
    r = core.compile_model(read, "CPU", how).create_infer_request()
    return lambda: r.infer({0: x})


def measured_peak(threads):
    """GFLOP/s of oneDNN's packed product, the best of some."""
    import torch
    torch.set_num_threads(threads)
    n = 1536
    x, w = torch.randn(n, n), torch.ops.mkldnn._reorder_linear_weight(torch.randn(n, n))
    best = float("inf")
    for _ in range(20):
        t = time.perf_counter()
        torch.ops.mkldnn._linear_pointwise(x, w, None, "none", [], "")
        best = min(best, time.perf_counter() - t)
    return 2e-9 * n**3 / best


def serve(engine, threads):
    """Answers "network batch iterations" lines with seconds per call."""
    if engine == "peak":
        sys.stdin.readline()
        print(measured_peak(threads), flush=True)
        return
    import torch
    have, f = None, None
    for line in sys.stdin:
        network, batch, n = line.split()
        try:
            with torch.inference_mode():
                if have != (network, batch):
                    f, have = None, (network, batch)
                    f = calls(network, int(batch), engine, threads)
                    f(), f()
                t = time.perf_counter()
                for _ in range(int(n)):
                    f()
                print((time.perf_counter() - t) / int(n), flush=True)
        except Exception as e:  # an engine that cannot run a network: the others go on
            print(f"{engine}, {network}, batch {batch}: {e}"[:500], file=sys.stderr)
            print("nan", flush=True)


if a.peer:
    engine, threads = a.peer.split(":")
    serve(engine, int(threads))
    sys.exit(0)


class Process:
    def __init__(self, name, command, threads):
        self.name = name
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def __call__(self, network, batch, n):
        self.p.stdin.write(f"{network} {batch} {n}\n")
        self.p.stdin.flush()
        answer = self.p.stdout.readline()
        if not answer:
            sys.exit(f"{self.name} ended in {network}, batch {batch}")
        return float(answer)

    def close(self):
        self.p.stdin.close()
        self.p.wait()


def peak(threads):
    """GFLOP/s of a matrix product that fits the caches: what the machine gives, measured beside the rows."""
    return Process("peak", [sys.executable, os.path.abspath(__file__), a.side, a.out, "--peer", f"peak:{threads}"],
                   threads)("", 0, 1)


def middle(those, ours):
    """The median of the paired ratios of two forms' times."""
    return f"{statistics.median(t / o for t, o in zip(those, ours)):.3f}" if those and ours else "nan"


OURS = {"ours": "frozen", "bf16": "bf16", "plain": "plain", "int8": "int8"}
HEAD = ["network", "batch", "threads", "rounds", "ours_ms", "best_peer", "best_peer_ms", "times_as_fast", "lowest",
        "highest", "ours_of_peak", "peer_of_peak", "peak_gflops", *[e + "_ms" for e in ENGINES], "ours_bf16_ms",
        "ours_plain_ms", "ours_int8_ms", INT8 + "_ms", "int8_times_as_fast_as_float32",
        "int8_times_as_fast_as_openvino"]
rows = []
for threads in map(int, a.threads.split(",")):
    top = peak(threads)
    engines = a.engines.split(",")
    all = {name: Process(name, [a.side, "infer", str(threads), form], threads) for name, form in OURS.items()}
    for e in [*engines, INT8]:
        peer = [sys.executable, os.path.abspath(__file__), a.side, a.out, "--peer", f"{e}:{threads}"]
        all[e] = Process(e, peer, threads)
    for network in a.networks.split(","):
        for batch in map(int, a.batches.split(",")):
            count, times = {}, {}
            for name, f in all.items():
                f(network, batch, 1)
                once = f(network, batch, 1)
                count[name], times[name] = max(1, int(a.seconds / once)) if once == once else 0, []
            for _ in range(a.rounds):
                for name, f in all.items():
                    if count[name]:
                        times[name].append(f(network, batch, count[name]))
            mid = {n: statistics.median(t) if t else float("nan") for n, t in times.items()}
            best = min((e for e in engines if times[e]), key=lambda e: mid[e])
            ratios = [t / o for o, t in zip(times["ours"], times[best])]
            low, high = paired.interval(ratios)
            work = GFLOP[network] * batch
            ms = {n: f"{1000 * t:.2f}" for n, t in mid.items()}
            compared = [f"{x:.3f}" for x in (statistics.median(ratios), low, high)]
            shares = [f"{work / mid[n] / top:.2f}" for n in ("ours", best)]
            rows.append([network, batch, threads, a.rounds, ms["ours"], best, ms[best], *compared, *shares,
                         f"{top:.0f}", *[ms.get(e, "") for e in ENGINES], ms["bf16"], ms["plain"], ms["int8"], ms[INT8],
                         *[middle(times[n], times["int8"]) for n in ("ours", INT8)]])
            print(*rows[-1], sep="  ", flush=True)
            with open(a.out, "w", newline="") as f:
                csv.writer(f).writerows([HEAD] + rows)
    for f in all.values():
        f.close()
mean = statistics.geometric_mean(float(r[7]) for r in rows)
print(f"geometric mean of {len(rows)} rows {mean:.3f}, lowest {min(float(r[7]) for r in rows):.3f}")
