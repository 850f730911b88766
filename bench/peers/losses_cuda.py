"""The losses' forward and backward as PyTorch programs on a card, with events over buffers that rotate: eager and torch.compile of the lean forms, at (4096, 5000) as BenchmarkGPULosses.

Run on a machine with a GPU, in the folder that make gpu-check makes: python losses_cuda.py OUT.csv [--rows N --classes N --only an,gr]
of_copy is the share of the card's own copy, counted as logits and labels in, gradient out."""
import argparse, ast, csv, os, sys

p = argparse.ArgumentParser()
p.add_argument("out"), p.add_argument("--rows", type=int, default=4096), p.add_argument("--classes", type=int, default=5000)
p.add_argument("--only", default=""), p.add_argument("--device", default="cuda"), p.add_argument("--rounds", type=int, default=30)
p.add_argument("--dry", action="store_true", help="say what would be measured; needs no torch")
p.add_argument("--small", action="store_true", help="everything once, tiny and on the CPU: does the script work?")
o = p.parse_args()
if o.small:
    o.device, o.rows, o.classes, o.rounds = "cpu", 8, 12, 1
HEAD = ["loss", "dtype", "form", "us", "of_copy"]
if o.dry:
    tree = ast.parse(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "loss_forms.py")).read())
    table = next(n.value for n in tree.body if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "FORMS")
    names = [k.value for k, v in zip(table.keys, table.values) if "s" not in v.elts[2].value]
    print(f"would measure {len(names)} losses ({', '.join(names)}) in float32 and bfloat16, eager and compiled,",
          f"at {o.rows} x {o.classes}")
    csv.writer(open(o.out, "w", newline="")).writerow(HEAD)
    sys.exit(0)
import torch
import loss_forms

BUFFERS = 4  # together larger than the card's cache
on_card = o.device.startswith("cuda")


def seconds(f):
    """Of one call, the median of rounds."""
    for i in range(BUFFERS):
        f(i)
    out = []
    for r in range(o.rounds):
        if on_card:
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            f(r % BUFFERS)
            b.record()
            b.synchronize()
            out.append(a.elapsed_time(b) / 1e3)
        else:
            import time
            t = time.perf_counter()
            f(r % BUFFERS)
            out.append(time.perf_counter() - t)
    return sorted(out)[len(out) // 2]


with open(o.out, "w", newline="") as file:
    w = csv.writer(file)
    w.writerow(HEAD)
    for dtype in (torch.float32, torch.bfloat16):
        given = [loss_forms.inputs(o.rows, o.classes) for _ in range(BUFFERS)]
        sets = [{k: v.to(o.device, dtype if k in "zu" else v.dtype) for k, v in d.items()} for d in given]
        size = o.rows * o.classes * sets[0]["z"].element_size()
        copy = 2 * size / seconds(lambda i: sets[i]["z"].clone())
        for name, (_, lean, names, more) in loss_forms.FORMS.items():
            if o.only and name not in o.only.split(",") or "s" in names:  # a strong view: more than a pass over logits
                continue
            backend = "inductor" if on_card else "eager"
            for form, f in (("eager", lean), ("compiled", torch.compile(lean, backend=backend))):

                def step(i):
                    leaves = [sets[i][k].requires_grad_() for k in names if k in "zu"]
                    for t in leaves:
                        t.grad = None
                    f(*(sets[i][k] for k in names), *more).backward()

                try:
                    s = seconds(step)
                except Exception as e:  # one form must not end the others
                    print(name, form, dtype, "fails:", str(e).splitlines()[0], file=sys.stderr)
                    continue
                moved = 2 * size + o.rows * o.classes
                w.writerow([name, str(dtype).split(".")[1], form, f"{s * 1e6:.1f}", f"{moved / s / copy:.3f}"])
                file.flush()
