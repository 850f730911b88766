"""Tags photos by an ONNX file as its metadata says, with Pillow, ONNX Runtime and OpenVINO, and compares with what
spml predict --format csv wrote. Usage: tag_onnx.py FILE.onnx PREDICTED.csv FOLDER"""
import csv, json, os, sys

import numpy, onnx, onnxruntime, openvino
from PIL import Image, ImageOps

path, predicted, folder = sys.argv[1:]
model = onnx.load(path)
onnx.checker.check_model(model, full_check=True)
meta = {p.key: json.loads(p.value) for p in model.metadata_props}
classes, thresholds, how = meta["classes"], numpy.array(meta["thresholds"]), meta["preprocessing"]
assert how["crop_mode"] == "squash" and how["layout"] == "NCHW" and how["colors"] == "RGB"
resample = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}[how["interpolation"]]

rows = list(csv.reader(open(predicted)))
assert rows[0][1:] == classes, (rows[0], classes)
x = []
for row in rows[1:]:
    image = Image.open(os.path.join(folder, os.path.basename(row[0])))
    if how.get("exif") == "apply":
        image = ImageOps.exif_transpose(image)
    image = image.convert("RGB").resize((how["width"], how["height"]), resample)
    x.append(numpy.asarray(image, numpy.float32).transpose(2, 0, 1))
x = numpy.stack(x)
if how["input"] == "bytes":
    x = x.astype(numpy.uint8)
else:
    x = x / numpy.float32(255)
    if how["input"] == "normalized":
        mean, std = (numpy.array(how[k], numpy.float32).reshape(3, 1, 1) for k in ("mean", "std"))
        x = (x - mean) / std
want = numpy.array([[float(v) for v in row[1:]] for row in rows[1:]])

session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
given = session.get_inputs()[0].name
for name, run in {
    "onnxruntime": lambda v: session.run(["probabilities"], {given: v})[0],
    "openvino": lambda v: compiled({given: v})["probabilities"],
}.items():
    p = numpy.concatenate([run(x[i:i + 16]) for i in range(0, len(x), 16)])
    apart, other = numpy.abs(p - want).max(), ((p > thresholds) != (want > thresholds)).sum()
    if other or apart > 2e-5:
        sys.exit(f"{name}: {other} labels differ, probabilities by {apart:.3g}")
    print(f"{name}: probabilities differ by {apart:.2g}")
print(len(x), "photos, labels of both engines equal")
