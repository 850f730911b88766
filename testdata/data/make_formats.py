"""Writes the fixtures in formats/ with the tools that own the formats, and expected.json with what those tools read back.

    python make_formats.py        (needs pycocotools, webdataset, label-studio-sdk, pandas, liac-arff, datasets, safetensors, numpy, Pillow)

An entry of expected.json: {"path", "format", "options", "classes", "rows": {name: [positive classes]}, "observed": {name: [[positive], [negative]]} or null}.
"""
import io, json, os, shutil, warnings
import numpy as np, pandas as pd
warnings.filterwarnings("ignore")

here = os.path.dirname(os.path.abspath(__file__))
out = os.path.join(here, "formats")
shutil.rmtree(out, ignore_errors=True)
os.makedirs(out)
expected = []

CLASSES = ["bird", "boat", "cat", "dog", "person"]
ROWS = {  # some with several, one with none
    "a1.jpg": ["cat", "person"], "a2.jpg": ["boat"], "a3.jpg": ["bird", "boat", "dog"], "a4.jpg": [], "b1.jpg": ["dog"],
    "b2.jpg": ["bird", "cat", "dog", "person"], "b3.jpg": ["person"], "b4.jpg": ["boat", "person"],
}


def say(path, fmt, rows=ROWS, classes=CLASSES, observed=None, **options):
    expected.append({"path": path, "format": fmt, "options": options, "classes": classes, "rows": rows, "observed": observed})


def write(path, text, mode="w"):
    path = os.path.join(out, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, mode, **({} if "b" in mode else {"newline": ""})) as f:
        f.write(text)


# --- Label Studio: its converter writes JSON_MIN, CSV, COCO, VOC and YOLO from the JSON that its server exports.
from label_studio_sdk.converter import Converter

config = """<View><Image name="image" value="$image"/><Choices name="labels" toName="image" choice="multiple">%s</Choices></View>""" % "".join(
    f'<Choice value="{c}"/>' for c in CLASSES)
tasks = []
for i, (name, labels) in enumerate(ROWS.items()):
    result = [{"id": f"r{i}", "from_name": "labels", "to_name": "image", "type": "choices", "value": {"choices": labels}}] if labels else []
    tasks.append({"id": i + 1, "data": {"image": f"/data/upload/1/{name}"}, "annotations": [
        {"id": 100 + i, "completed_by": 1, "result": result, "was_cancelled": False, "ground_truth": False, "lead_time": 1.5,
         "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}], "predictions": []})
write("label_studio/export.json", json.dumps(tasks, indent=1))
say("label_studio/export.json", "label-studio")
src = os.path.join(out, "label_studio/export.json")
c = Converter(config, None, download_resources=False)
tmp = os.path.join(out, "tmp")
for kind, f, name in [("json_min", c.convert_to_json_min, "result.json"), ("csv", c.convert_to_csv, "result.csv")]:
    f(src, tmp, is_dir=False, **({"sep": ","} if kind == "csv" else {}))
    os.makedirs(os.path.join(out, "label_studio_" + kind), exist_ok=True)
    shutil.move(os.path.join(tmp, name), os.path.join(out, "label_studio_" + kind, name))
    shutil.rmtree(tmp)
# JSON_MIN and CSV have no row for a class-less annotation's choice key but keep the task.
say("label_studio_json_min/result.json", "label-studio")
say("label_studio_csv/result.csv", "label-studio")

box_config = """<View><Image name="image" value="$image"/><RectangleLabels name="box" toName="image">%s</RectangleLabels></View>""" % "".join(
    f'<Label value="{c}"/>' for c in CLASSES)
boxes = []
for i, (name, labels) in enumerate(ROWS.items()):
    result = [{"id": f"r{i}{k}", "from_name": "box", "to_name": "image", "type": "rectanglelabels", "original_width": 64, "original_height": 48, "image_rotation": 0,
               "value": {"x": 10, "y": 10, "width": 20 + k, "height": 30, "rotation": 0, "rectanglelabels": [l]}} for k, l in enumerate(labels)]
    boxes.append({"id": i + 1, "data": {"image": name}, "annotations": [{"id": i, "completed_by": 1, "result": result, "was_cancelled": False}]})
write("boxes.json", json.dumps(boxes))
c = Converter(box_config, None, download_resources=False)
from PIL import Image
photos = os.path.join(out, "photos")
os.makedirs(photos)
for name in ROWS:
    Image.new("RGB", (64, 48), (10, 200, 30)).save(os.path.join(photos, name), quality=40)
with_boxes = {n: l for n, l in ROWS.items()}
for kind, f in [("coco", c.convert_to_coco), ("voc", c.convert_to_voc), ("yolo", c.convert_to_yolo)]:
    target = os.path.join(out, "label_studio_" + kind)
    cwd = os.getcwd()
    os.chdir(photos)
    try:
        f(os.path.join(out, "boxes.json"), target, is_dir=False)
    finally:
        os.chdir(cwd)
    print(kind, [os.path.join(d, x)[len(out):] for d, _, fs in os.walk(target) for x in fs][:20])
os.remove(os.path.join(out, "boxes.json"))
shutil.rmtree(photos)

say("label_studio_coco", "coco")
VOC = "aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person pottedplant sheep sofa train tvmonitor".split()
LABELLED = {n: l for n, l in ROWS.items() if l}
say("label_studio_voc", "voc", rows=LABELLED, classes=VOC)  # the converter writes nothing for an image without boxes
say("label_studio_yolo", "yolo", rows=ROWS)

# --- pycocotools: a file with gaps in the ids, an image without objects and a crowd, as its own reader sees it.
from pycocotools.coco import COCO
import contextlib  # it prints

ids = {c: 3 * i + 2 for i, c in enumerate(CLASSES)}
images = [{"id": 581929 if i == 0 else 9 + 7 * i, "file_name": n, "width": 64, "height": 48} for i, n in enumerate(ROWS)]
anns = []
for im in images:
    for l in ROWS[im["file_name"]]:
        anns.append({"id": len(anns) + 1, "image_id": im["id"], "category_id": ids[l], "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": int(l == "dog"),
                     "segmentation": {"counts": [1, 2, 3], "size": [48, 64]} if l == "dog" else [[1, 2, 3, 4, 5, 6]]})
write("pycocotools/annotations/instances_val2017.json", json.dumps({"info": {"year": 2026}, "licenses": [{"id": 1, "name": "none", "url": ""}], "images": images, "annotations": anns,
      "categories": [{"supercategory": "x", "id": ids[c], "name": c} for c in CLASSES]}))
with contextlib.redirect_stdout(io.StringIO()):
    coco = COCO(os.path.join(out, "pycocotools/annotations/instances_val2017.json"))
names = {c["id"]: c["name"] for c in coco.loadCats(coco.getCatIds())}
order = sorted((str(i) for i in coco.getImgIds() if coco.getAnnIds(imgIds=[i])))  # the papers' rule: only images with objects, ids as decimal strings
say("pycocotools", "coco", rows={"val2017/" + coco.imgs[int(i)]["file_name"]: sorted({names[a["category_id"]] for a in coco.loadAnns(coco.getAnnIds(imgIds=[int(i)]))}) for i in order})
say("pycocotools", "coco", rows={"val2017/" + coco.imgs[int(i)]["file_name"]: sorted({names[a["category_id"]] for a in coco.loadAnns(coco.getAnnIds(imgIds=[int(i)]))})
                                 for i in sorted(str(i) for i in coco.getImgIds())}, Empty="keep")

# --- webdataset: two shards with photos and JSON; one with class numbers.
import webdataset as wds


def jpeg(i):
    b = io.BytesIO()
    Image.new("RGB", (8, 6), (20 * i, 100, 200)).save(b, "JPEG")
    return b.getvalue()


os.makedirs(os.path.join(out, "webdataset"))
with wds.ShardWriter(os.path.join(out, "webdataset", "set-%06d.tar"), maxcount=5, verbose=0) as sink:
    for i, (n, l) in enumerate(ROWS.items()):
        sink.write({"__key__": n[:-4], "jpg": jpeg(i), "json": {"labels": l, "caption": "ü"}})
read = {}
for x in wds.WebDataset([os.path.join(out, "webdataset", f"set-{k:06d}.tar") for k in range(2)], shardshuffle=False).decode():
    read[x["__key__"] + ".jpg"] = x["json"]["labels"]
say("webdataset", "webdataset", rows=read)
os.makedirs(os.path.join(out, "webdataset_cls"))
with wds.TarWriter(os.path.join(out, "webdataset_cls", "numbers.tar")) as sink:
    for i, (n, l) in enumerate(ROWS.items()):
        if l:
            sink.write({"__key__": "deep/folder/" + n[:-4], "jpg": jpeg(i), "cls": CLASSES.index(l[0])})
write("webdataset_cls/classes.txt", "\n".join(CLASSES) + "\n")
say("webdataset_cls", "webdataset", rows={"deep/folder/" + n: l[:1] for n, l in ROWS.items() if l})

# --- pandas: the layouts of CSV, with a byte order mark, CRLF, semicolons, empty cells.
full = pd.DataFrame([[n] + [int(c in l) for c in CLASSES] for n, l in ROWS.items()], columns=["filename"] + CLASSES)
os.makedirs(os.path.join(out, "pandas"))
p = lambda n: os.path.join(out, "pandas", n)
full.to_csv(p("wide_bom_crlf.csv"), index=False, encoding="utf-8-sig", lineterminator="\r\n")
say("pandas/wide_bom_crlf.csv", "csv")
lists = pd.DataFrame([["folder\\" + n, "|".join(l)] for n, l in ROWS.items()], columns=["image", "labels"])
lists.to_csv(p("lists.csv"), index=False)
say("pandas/lists.csv", "csv", rows={"folder/" + n: l for n, l in ROWS.items()})
lists["labels"] = [";".join(l) for l in ROWS.values()]
pd.concat([lists, lists.iloc[2:4]]).to_csv(p("semicolons_twice.tsv"), index=False, sep="\t")
say("pandas/semicolons_twice.tsv", "csv", rows={"folder/" + n: l for n, l in ROWS.items()})
signs = pd.DataFrame([[n] + [1 if c in l[:1] else (-1 if c not in l else 0) for c in CLASSES] for n, l in ROWS.items()], columns=["file"] + CLASSES)
signs.to_csv(p("signs.csv"), index=False)
marks = {n: [l[:1], [c for c in CLASSES if c not in l]] for n, l in ROWS.items()}
say("pandas/signs.csv", "csv", rows=None, observed=marks)
blank = signs.replace(0, np.nan).replace(-1, 0).astype({c: "Int64" for c in CLASSES})
blank.to_csv(p("blanks.csv"), index=False, sep=";")
say("pandas/blanks.csv", "csv", rows=None, observed=marks)

# --- Hugging Face datasets: JSON lines.
from datasets import Dataset
os.makedirs(os.path.join(out, "datasets"))
Dataset.from_list([{"file_name": n, "labels": l, "width": 3} for n, l in ROWS.items()]).to_json(os.path.join(out, "datasets", "metadata.jsonl"))
say("datasets", "jsonl")
os.makedirs(os.path.join(out, "datasets_observed"))
Dataset.from_list([{"file_name": n, "positive": m[0], "negative": m[1]} for n, m in marks.items()]).to_json(os.path.join(out, "datasets_observed", "metadata.jsonl"))
say("datasets_observed", "jsonl", rows=None, observed=marks)

# --- numpy: Cole et al.'s arrays.
os.makedirs(os.path.join(out, "cole"))
y = np.array([[float(c in l) for c in CLASSES] for l in ROWS.values()])
single = np.array([[float(c in l[:1]) for c in CLASSES] for l in ROWS.values()])
for part, at in [("train", slice(0, 5)), ("val", slice(5, 8))]:
    np.save(os.path.join(out, "cole", f"formatted_{part}_images.npy"), np.array(list(ROWS))[at])
    np.save(os.path.join(out, "cole", f"formatted_{part}_labels.npy"), y[at] if part == "train" else y[at].astype(np.int64))
    np.save(os.path.join(out, "cole", f"formatted_{part}_labels_obs.npy"), np.asfortranarray(single[at]))
write("cole/classes.txt", "\r\n".join(CLASSES))
say("cole", "cole", observed={n: [l[:1], []] for n, l in ROWS.items()})

# --- safetensors: features with labels.
from safetensors.numpy import save_file
os.makedirs(os.path.join(out, "safetensors"))
save_file({"features": np.arange(8 * 3, dtype=np.float16).reshape(8, 3), "labels": y.astype(np.uint8), "observed": single.astype(np.int8), "split": np.array([0] * 5 + [1] + [2] * 2, np.uint8)},
          os.path.join(out, "safetensors", "features.safetensors"), metadata={"classes": json.dumps(CLASSES), "images": json.dumps(list(ROWS))})
say("safetensors/features.safetensors", "features", observed={n: [l[:1], []] for n, l in ROWS.items()})

# --- liac-arff: MEKA's relation name, dense and sparse.
import arff
attributes = [(c, ["0", "1"]) for c in CLASSES] + [("size of it", "REAL"), ("colour", ["red", "green, blue", "it's"])]
rows = [[str(int(c in l)) for c in CLASSES] + [0.5 * i, ["red", "green, blue", "it's"][i % 3]] for i, l in enumerate(ROWS.values())]
os.makedirs(os.path.join(out, "arff"))
with open(os.path.join(out, "arff", "dense.arff"), "w") as f:
    arff.dump({"relation": "toy: -C 5", "attributes": attributes, "data": rows, "description": "a comment"}, f)
numbered = lambda stem: {f"{stem}#{i + 1}": l for i, l in enumerate(ROWS.values())}
say("arff/dense.arff", "arff", rows=numbered("dense"))
sparse = [{j: v for j, v in enumerate(r) if v not in ("0", 0.0, "red")} for r in rows]
with open(os.path.join(out, "arff", "sparse.arff"), "w") as f:
    arff.dump({"relation": "toy: -C 5", "attributes": attributes, "data": sparse}, f)
say("arff/sparse.arff", "arff", rows=numbered("sparse"))

# --- By the documentation: FiftyOne's two exports, official lists of VOC, CUB, NUS-WIDE, SPML.
write("fiftyone_classification/labels.json", json.dumps({"classes": CLASSES, "labels": {n[:-4]: [CLASSES.index(x) for x in l] for n, l in ROWS.items()}}))
say("fiftyone_classification", "fiftyone", rows={n[:-4]: l for n, l in ROWS.items()})
write("fiftyone_samples/samples.json", json.dumps({"samples": [{"filepath": "data/" + n, "tags": ["validation"], "metadata": None, "_media_type": "image",
      "ground_truth": {"_cls": "Classifications", "classifications": [{"_id": {"$oid": "5f"}, "_cls": "Classification", "tags": [], "label": x, "confidence": None, "logits": None} for x in l]},
      "uniqueness": 0.5} for n, l in ROWS.items()]}))
say("fiftyone_samples", "fiftyone", rows={"data/" + n: l for n, l in ROWS.items()})
for part, names_ in [("train", list(ROWS)[:5]), ("val", list(ROWS)[5:])]:
    for c in CLASSES:
        write(f"voc_lists/VOC2012/ImageSets/Main/{c}_{part}.txt", "".join(f"{n[:-4]} {'%2d' % (1 if c in ROWS[n] else 0 if (n == 'a2.jpg' and c == 'dog') else -1)}\r\n" for n in names_))
say("voc_lists", "voc", rows=LABELLED, classes=VOC)
say("voc_lists", "voc", rows={n: l + (["dog"] if n == "a2.jpg" else []) for n, l in LABELLED.items()}, classes=VOC, Difficult="positive")
write("cub_official/attributes.txt", "".join(f"{i + 1} {c}\n" for i, c in enumerate(CLASSES)))
write("cub_official/CUB_200_2011/images.txt", "".join(f"{i + 1} 001.x/{n}\n" for i, n in enumerate(ROWS)))
write("cub_official/CUB_200_2011/train_test_split.txt", "".join(f"{i + 1} {int(i < 5)}\n" for i, n in enumerate(ROWS)))
write("cub_official/CUB_200_2011/attributes/image_attribute_labels.txt", "".join(f"{i + 1} {k + 1} {int(c in l)} 3 27.7{' 0 1' if i == 3 else ''}\n" for i, l in enumerate(ROWS.values()) for k, c in enumerate(CLASSES)))
say("cub_official", "cub", rows={"001.x/" + n: l for n, l in ROWS.items()})
for part, names_ in [("Train", list(ROWS)[:5]), ("Test", list(ROWS)[5:])]:
    write(f"nus_wide/ImageList/{part}Imagelist.txt", "".join(f"actor\\{n}\r\n" for n in names_))
    for c in CLASSES:
        write(f"nus_wide/Groundtruth/TrainTestLabels/Labels_{c}_{part}.txt", "".join(f"{int(c in ROWS[n])}\r\n" for n in names_))
say("nus_wide", "nus-wide", rows={"actor/" + n: l for n, l in ROWS.items()})
write("spml_lists/toy_train_full.txt", "".join(f"{n}, {' '.join(str(CLASSES.index(c)) for c in ROWS[n])}\n" for n in list(ROWS)[:5]))
write("spml_lists/toy_train_singlelabel.txt", "".join(f"{n},{' '.join(str(CLASSES.index(c)) for c in ROWS[n][:1])}\n" for n in list(ROWS)[:5]))
write("spml_lists/toy_val.txt", "".join(f"{n}, {' '.join(str(CLASSES.index(c)) for c in ROWS[n])}\n" for n in list(ROWS)[5:]))
write("spml_lists/classes.txt", "\n".join(CLASSES))
say("spml_lists", "spml-list")

json.dump(expected, open(os.path.join(out, "expected.json"), "w"), indent=1)
