"""Training steps in PyTorch on a card from one fixed tensor: ResNet-50 at 448 and MobileNetV2 at 224, channels last, float32 (TF32 off and on) and bfloat16, and an MLP as eager code and as a graph.

Run on a machine with a GPU, in the folder that make gpu-check makes: python train_cuda.py OUT.csv
The networks are torchvision's where it is installed; the rows of those are left out otherwise, which it says."""
import argparse, csv, sys

p = argparse.ArgumentParser()
p.add_argument("out"), p.add_argument("--device", default="cuda"), p.add_argument("--steps", type=int, default=20)
p.add_argument("--dry", action="store_true", help="say what would be measured; needs no torch")
p.add_argument("--small", action="store_true", help="everything once, tiny and on the CPU: does the script work?")
o = p.parse_args()
if o.small:
    o.device, o.steps = "cpu", 1
NETWORKS = (("resnet50", 448, 64), ("resnet50", 224, 64), ("mobilenet_v2", 224, 64))
if o.small:
    NETWORKS = (("mobilenet_v2", 64, 2),)
PRECISIONS = ("fp32", "tf32", "bf16")
HEAD = ["what", "size", "batch", "precision", "ms", "images_per_s"]
if o.dry:
    print("would measure an MLP eager, compiled and as a graph;", ", ".join(f"{n} at {s}" for n, s, _ in NETWORKS),
            "in", ", ".join(PRECISIONS), "eager, in bf16 compiled too")
    csv.writer(open(o.out, "w", newline="")).writerow(HEAD)
    sys.exit(0)
import torch
import torch.nn.functional as F

on_card = o.device.startswith("cuda")


def compiled_form(m):
    return torch.compile(m, backend="inductor" if on_card else "eager")


def seconds(step):
    for _ in range(1 if o.small else 5):
        step()
    if not on_card:
        import time
        t = time.perf_counter()
        for _ in range(o.steps):
            step()
        return (time.perf_counter() - t) / o.steps
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    for _ in range(o.steps):
        step()
    b.record()
    b.synchronize()
    return a.elapsed_time(b) / 1e3 / o.steps


def network(name, size, batch, dtype, compiled=False):
    m = getattr(torchvision.models, name)(num_classes=80).to(o.device, memory_format=torch.channels_last).train()
    forward = compiled_form(m) if compiled else m
    opt = torch.optim.SGD(m.parameters(), lr=0.01, momentum=0.9)
    x = torch.rand(batch, 3, size, size, device=o.device).to(memory_format=torch.channels_last)
    y = (torch.rand(batch, 80, device=o.device) < 0.03).float()

    def step():
        with torch.autocast(o.device.split(":")[0], dtype=torch.bfloat16, enabled=dtype == "bf16"):
            z = forward(x)
        loss = F.binary_cross_entropy_with_logits(z.float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return step


def mlp(compiled=False):
    m = torch.nn.Sequential(torch.nn.Linear(2048, 512), torch.nn.ReLU(), torch.nn.Linear(512, 80)).to(o.device)
    opt = torch.optim.SGD(m.parameters(), lr=0.01)
    forward = compiled_form(m) if compiled else m
    x, y = torch.rand(128, 2048, device=o.device), (torch.rand(128, 80, device=o.device) < 0.03).float()

    def step():
        opt.zero_grad()
        F.binary_cross_entropy_with_logits(forward(x), y).backward()
        opt.step()
    return step


with open(o.out, "w", newline="") as file:
    w = csv.writer(file)
    w.writerow(HEAD)

    def row(what, size, batch, precision, s):
        w.writerow([what, size, batch, precision, f"{s * 1e3:.3f}", f"{batch / s:.0f}"])
        file.flush()

    row("mlp eager", 2048, 128, "fp32", seconds(mlp()))
    row("mlp compiled", 2048, 128, "fp32", seconds(mlp(True)))
    if on_card:
        step = mlp()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        row("mlp graph", 2048, 128, "fp32", seconds(graph.replay))
    try:
        import torchvision
    except ImportError:
        print("torchvision is not installed: no networks", file=sys.stderr)
        sys.exit(0)
    for name, size, batch in NETWORKS:
        for precision in PRECISIONS:
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
            for compiled in (False, True) if precision == "bf16" else (False,):
                try:
                    row(name + " compiled" * compiled, size, batch, precision,
                            seconds(network(name, size, batch, precision, compiled)))
                except Exception as e:  # memory, or what the compiler lacks: the others go on
                    print(name, size, batch, precision, "compiled" if compiled else "eager", "fails:",
                            str(e).splitlines()[0], file=sys.stderr)
