"""Checks the ONNX files of a folder and runs them: FOLDER/NAME.onnx on FOLDER/NAME.IN.npy -> FOLDER/NAME.IN.ENGINE.npy.
Usage: engines.py FOLDER"""
import glob, os, sys

import numpy, onnx, onnxruntime, openvino

for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.onnx"))):
    stem = path[:-len(".onnx")]
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    how = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = openvino.Core().compile_model(path, "CPU", how)
    for given in sorted(glob.glob(glob.escape(stem) + ".*.npy")):
        if given.count(".") > stem.count(".") + 2:
            continue  # what an engine gave
        x = numpy.load(given)
        name = session.get_inputs()[0].name
        results = {"onnxruntime": session.run(None, {name: x}), "openvino": list(compiled([x]).values())}
        for engine, (logits, probabilities) in results.items():
            numpy.save(given[:-len("npy")] + engine + ".npy", numpy.stack([logits, probabilities]))
