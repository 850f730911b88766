"""Counts the real sets from their annotations with nothing of this module: python real_counts.py DATA > real_counts.json"""
import csv, glob, json, os, re, sys
import xml.etree.ElementTree as ET
from collections import Counter

root = sys.argv[1]
out = []
at = lambda *p: os.path.join(root, *p)
add = lambda **k: out.append(k)

for path in ["VOCdevkit/VOC2012", "voc_labelme"]:
    rows, classes = 0, Counter()
    for f in glob.glob(at(path, "Annotations", "*.xml")):
        rows += 1
        classes.update({o.findtext("name") for o in ET.parse(f).getroot().findall("object") if (o.findtext("difficult") or "0").strip() != "1"})
    add(path=path, format="voc", rows=rows, classes=dict(classes))

from pycocotools.coco import COCO
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()):
    coco = COCO(at("coco/coco_mini/annotations/instances_val2017.json"))
add(path="coco/coco_mini", format="coco", rows=len({a["image_id"] for a in coco.anns.values()}), classes={c["name"]: len(coco.getImgIds(catIds=[c["id"]])) for c in coco.cats.values()})

n, counts, parts = 0, [0] * 80, []
for part in ["train2017", "val2017"]:
    photos = os.listdir(at("coco/coco128", part))
    parts.append(len(photos))
    for p in photos:
        for c in {int(l.split()[0]) for l in open(at("coco/coco128/labels", part, p[:-4] + ".txt")) if l.strip()}:
            counts[c] += 1
add(path="coco/coco128", format="yolo", rows=sum(parts), parts=parts, counts=counts)

table = {p: [r.rstrip("\n").split("\t") for r in open(at("cub", p + ".tsv"))][1:] for p in ["train", "test"]}
counts = Counter(int(x) for r in table["test"] for x in r[2].split())
add(path="cub", format="tsv", rows=len(table["train"]) + len(table["test"]), parts=[len(table["train"]), len(table["test"])], counts=[counts[i] for i in range(312)],
    observed=sum(len(r[2].split()) for r in table["train"]))

rows = list(csv.DictReader(open(at("miml/labels.csv"))))
split = Counter("test" if r["split"] == "test" else "train" for r in csv.DictReader(open(at("miml/split.csv"))))
add(path="miml", format="csv", rows=len(rows), parts=[split["train"], split["test"]], classes={c: sum(int(r[c]) for r in rows) for c in rows[0] if c != "filename"})


def spml(name):
    return [(l.split(",")[0], [int(x) for x in l.split(",")[1].split()]) for l in open(at("labels/spml", name)) if l.strip()]


for name, c in [("voc", 20), ("cub", 312)]:
    train, val = spml(name + "_train.txt"), spml(name + "_val.txt")
    k = Counter(x for _, l in val for x in l)
    add(path="labels/spml/" + name, format="spml-list", rows=len(train) + len(val), parts=[len(train), len(val)], counts=[k[i] for i in range(c)], observed=sum(len(l) for _, l in train))
k = Counter(x for _, l in spml("coco_train_full.txt") for x in l)
add(path="labels/spml/coco", format="spml-list", rows=len(spml("coco_train_full.txt")), counts=[k[i] for i in range(80)])
k = Counter(x for _, l in spml("nus_val.txt") for x in l)
add(path="labels/spml/nus_val.txt", format="spml-list", rows=len(spml("nus_val.txt")), counts=[k[i] for i in range(81)])

for name, c in [("voc07_test", 20), ("voc07_trainval", 20), ("voc12_trainval", 20), ("coco17_val", 80)]:
    hard = {}
    if os.path.exists(at("labels/torchcv", name + "_difficult.txt")):
        hard = {l.split()[0]: l.split()[1:] for l in open(at("labels/torchcv", name + "_difficult.txt")) if l.strip()}
    n, k = 0, Counter()
    for l in open(at("labels/torchcv", name + ".txt")):
        f = l.split()
        if f:
            n += 1
            k.update({int(x) for i, x in enumerate(f[5::5]) if f[0] not in hard or hard[f[0]][i] != "1"})
    add(path=f"labels/torchcv/{name}.txt", format="box-list", rows=n, counts=[k[i] for i in range(c)])


def arff(name):
    attributes, rows, data = [], [], False
    for l in open(name, errors="strict"):
        l = l.strip()
        if not l or l[0] == "%":
            continue
        if l.lower() == "@data":
            data = True
        elif l.lower().startswith("@attribute"):
            m = re.match(r"@attribute\s+('(?:[^'\\]|\\.)*'|\"[^\"]*\"|\S+)", l, re.I).group(1)
            attributes.append(re.sub(r"\\(.)", r"\1", m[1:-1]) if m[0] in "'\"" else m)
        elif data and l[0] == "{":
            rows.append({attributes[int(p.split()[0])]: p.split()[1] for p in l[1:l.index("}")].split(",") if p.strip()})
        elif data:
            rows.append(dict(zip(attributes, [x.strip() for x in l.split(",")])))
    return rows


ns = "{http://mulan.sourceforge.net/labels}label"
for path, files in [("tabular/scene", ["scene-train", "scene-test"]), ("tabular/emotions", ["emotions-train", "emotions-test"]), ("tabular/flags", ["flags-train", "flags-test"]),
                    ("tabular/birds", ["birds-train", "birds-test"]), ("tabular/cal500", ["cal500"]), ("tabular/corel5k", ["Corel5k-train-sparse", "Corel5k-test"]),
                    ("tabular/enron", ["enron-train", "enron-test"]), ("tabular/medical", ["medical-train", "medical-test"]), ("tabular/yeast", ["yeast-train", "yeast-test"])]:
    labels = [l.get("name") for l in ET.parse(glob.glob(at(path, "*.xml"))[0]).getroot().iter(ns)]
    parts = [arff(at(path, f + ".arff")) for f in files]
    k = {l: sum(float(r.get(l, 0)) == 1 for p in parts for r in p) for l in labels}
    add(path=path, format="arff", rows=sum(map(len, parts)), parts=[len(p) for p in parts] if len(parts) > 1 else None, counts=[k[l] for l in labels])

import numpy as np
for f in ["miml", "cub_train", "cub_test"]:
    add(path=f"features/{f}_mobilenetv2.npy", format="features", rows=np.load(at(f"features/{f}_mobilenetv2.npy")).shape[0])
json.dump(out, sys.stdout)
