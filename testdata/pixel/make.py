"""Writes awkward.json, photos.json and normalize.json: what Pillow 13 and torchvision make of the files of the data root.
resize.json and preprocess.json are cut out of spec/golden_models.json and spec/golden_preprocess.json.
Run: python make.py DATA_ROOT        (the folder that holds data/ and spec/)"""
import json, os, struct, sys, warnings, zlib

import numpy as np
import PIL
from PIL import Image, ImageOps
from torchvision.transforms import functional as TF

warnings.simplefilter("ignore")
root = sys.argv[1]
here = os.path.dirname(os.path.abspath(__file__))
about = {"Pillow": PIL.__version__}


def write(name, value):
    with open(os.path.join(here, name), "w") as f:
        json.dump(value, f, separators=(",", ":"))
        f.write("\n")


def crc(im):
    return zlib.crc32(im.tobytes())


def read(path):
    """What a training script does: open, convert, resize."""
    im = Image.open(path)
    mode, rgb = im.mode, im.convert("RGB")
    try:
        orientation = im.getexif().get(0x112, 1)
    except Exception:
        orientation = 1
    r = {"mode": mode, "wh": rgb.size, "rgb": crc(rgb), "squash448": crc(rgb.resize((448, 448), Image.BILINEAR)),
         "bicubic224": crc(rgb.resize((224, 224), Image.BICUBIC))}
    if orientation in range(2, 9):
        r["orientation"] = orientation
        r["transposed"] = crc(ImageOps.exif_transpose(im).convert("RGB"))
    return r


def files(folder):
    for d, _, names in sorted(os.walk(os.path.join(root, "data", folder))):
        for n in sorted(names):
            yield os.path.join(d, n)


awkward = {}
for path in files("awkward"):
    if os.path.basename(path).startswith("LICENSE"):
        continue
    try:
        r = read(path)
    except Exception as e:
        r = {"error": type(e).__name__}
    awkward[os.path.relpath(path, os.path.join(root, "data", "awkward"))] = r
write("awkward.json", {"about": about, "files": awkward})

# One number for every 16th photo of each set, in the order of their paths.
photos = {}
for folder in ("miml", "cub", "coco", "VOCdevkit"):
    some = sorted(f for f in files(folder) if f.endswith((".jpg", ".png")))[::16]
    digest = 0
    for f in some:
        r = read(f)
        digest = zlib.crc32(struct.pack("<5I", *r["wh"], r["rgb"], r["squash448"], r["bicubic224"]), digest)
    photos[folder] = {"count": len(some), "digest": digest}
write("photos.json", {"about": about, "every": 16, "sets": photos})

ramp = Image.fromarray(np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, 2))
constants = {"imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
             "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))}
write("normalize.json", {"about": "crc32 of ToTensor + Normalize, float32 [3, 1, 256], of a grey ramp 0..255",
                         **{k: zlib.crc32(TF.normalize(TF.to_tensor(ramp), *v).numpy().tobytes()) for k, v in constants.items()}})

models = json.load(open(os.path.join(root, "spec", "golden_models.json")))
write("resize.json", {"about": models["about"]["deterministic_fill"], "resize": models["resize"], "jpeg": models["jpeg"]})
preprocess = json.load(open(os.path.join(root, "spec", "golden_preprocess.json")))
drop = ("vlpl_448_to_336_antialias", "vlpl_448_to_336_no_antialias", "tensor_uint8_448_antialias_crc32", "tensor_uint8_448_antialias_vs_pil")
write("preprocess.json", {"about": preprocess["about"]["meaning"],
                          "files": [{k: v for k, v in f.items() if k not in drop} for f in preprocess["files"]]})
