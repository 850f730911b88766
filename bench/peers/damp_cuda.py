"""DAMP's labels of photos on a card in PyTorch: 17 views of each through ViT-B/16 (transformers,
scaled_dot_product_attention) in bfloat16, from views that are there and from JPEG files by Pillow in a process for each
core. Ours is `side card damp`.

Run on a machine with a GPU, in the folder that make gpu-check makes: python damp_cuda.py OUT.csv --photos FOLDER"""
import argparse, csv, glob, os, sys, time

p = argparse.ArgumentParser()
p.add_argument("out"), p.add_argument("--photos", default=""), p.add_argument("--batch", type=int,
        default=32), p.add_argument("--rounds", type=int, default=10)
p.add_argument("--dry", action="store_true", help="say what would be measured; needs no torch")
p.add_argument("--small", action="store_true", help="everything once, tiny and on the CPU: does the script work?")
o = p.parse_args()
DEVICE, LAYERS = "cuda", 12
if o.small:
    DEVICE, LAYERS, o.batch, o.rounds = "cpu", 1, 2, 1
HEAD, VIEWS, C, GRID = ["what", "batch", "precision", "photos_per_s", "views_per_s"], 17, 80, 4
if o.dry:
    print(f"would measure DAMP in batches of {o.batch} photos of {VIEWS} views in bf16:",
          f"from tensors, and from the JPEGs of {o.photos or 'no folder'}")
    csv.writer(open(o.out, "w", newline="")).writerow(HEAD)
    sys.exit(0)
import multiprocessing
import numpy


def views(path):
    """The photo and its tiles, squashed to 224 x 224."""
    from PIL import Image
    im = Image.open(path).convert("RGB")
    w, h = im.width // GRID, im.height // GRID
    boxes = [(0, 0, im.width, im.height)] + [(x * w, y * h, (x + 1) * w,
            (y + 1) * h) for y in range(GRID) for x in range(GRID)]
    return numpy.stack([numpy.asarray(im.resize((224, 224), Image.BICUBIC, b)) for b in boxes])


def main():
    pool = multiprocessing.get_context("spawn").Pool(1 if o.small else os.cpu_count()) if o.photos else None
    import torch
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection
    torch.set_grad_enabled(False)
    config = CLIPVisionConfig(hidden_size=768, intermediate_size=3072, num_hidden_layers=LAYERS, num_attention_heads=12,
            image_size=224, patch_size=16, projection_dim=512, hidden_act="quick_gelu",
                              attn_implementation="sdpa")
    tower = CLIPVisionModelWithProjection(config).to(DEVICE, torch.bfloat16).eval()
    text = torch.nn.functional.normalize(torch.randn(C, 512, device=DEVICE), dim=-1)
    seen = torch.arange(o.batch, device=DEVICE) % C

    def labels(x):
        f = torch.nn.functional.normalize(tower(pixel_values=x).image_embeds.float(), dim=-1)
        s = torch.softmax(f @ text.T / 0.01, -1).view(o.batch, VIEWS, C)
        whole, tiles = s[:, 0], s[:, 1:]
        local, best = whole.gather(1, seen[:, None]).clamp(max=0.3), tiles.amax(1)
        final = (whole + torch.where(best > local, best, tiles.amin(1))) / 2
        v, i = final.topk(3, dim=1)
        out = torch.zeros(o.batch, C, device=DEVICE).scatter_(1, i, (v >= 0.5).float())
        return out.scatter_(1, ((whole + tiles.mean(1)) / 2).topk(int(0.3 * C), dim=1, largest=False).indices,
                -1.0).cpu()

    def rate(step):
        for _ in range(1 if o.small else 3):
            step()
        start = time.perf_counter()
        for _ in range(o.rounds):
            step()
        return o.rounds * o.batch / (time.perf_counter() - start)

    with open(o.out, "w", newline="") as file:
        w = csv.writer(file)
        w.writerow(HEAD)
        x = torch.rand(o.batch * VIEWS, 3, 224, 224, device=DEVICE, dtype=torch.bfloat16)
        r = rate(lambda: labels(x))
        w.writerow(["tensors", o.batch, "bf16", f"{r:.1f}", f"{r * VIEWS:.0f}"]), file.flush()
        if not pool:
            return
        paths = (sorted(glob.glob(os.path.join(o.photos, "*.jpg"))) * o.batch)[: o.batch]
        ahead = [pool.map_async(views, paths)]

        def files():
            now = numpy.concatenate(ahead.pop().get())
            ahead.append(pool.map_async(views, paths))  # while this batch is encoded
            pixels = torch.from_numpy(now)
            if DEVICE != "cpu":
                pixels = pixels.pin_memory().to(DEVICE, non_blocking=True)
            labels((pixels.permute(0, 3, 1, 2).to(torch.bfloat16) / 255 - 0.45) / 0.27)

        r = rate(files)
        w.writerow(["jpegs", o.batch, "bf16", f"{r:.1f}", f"{r * VIEWS:.0f}"])


if __name__ == "__main__":
    main()
