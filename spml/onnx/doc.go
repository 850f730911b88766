// Package onnx writes trained models as ONNX files, for ONNX Runtime, OpenVINO and whoever else reads them.
//
//	err := onnx.Export("runs/em", "em.onnx", onnx.Options{})
//
// A file holds the whole network with its head, from pictures [batch, 3, H, W] to logits and probabilities
// [batch, C], for any batch. Decoding and resizing of photos stay outside; what they have to be lies in the metadata:
//
//	config.json    the model's configuration as its folder has it
//	classes        names in the order of the columns, a JSON list
//	thresholds     of each class, a JSON list: above it a label counts as present
//	preprocessing  size, interpolation, colours, what the input is, mean and deviation, a JSON object
//
// The graph comes from the same steps as the form in which this module predicts, so that normalisations are part of the
// convolutions. It needs opset 17 (ONNX 1.12). A file holds 2 GB at most, which is protobuf's limit.
package onnx
