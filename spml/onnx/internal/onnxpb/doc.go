// Package onnxpb has the messages of an ONNX file: onnx.proto of the package onnx 1.23.2 (Apache-2.0, see LICENSE),
// compiled by generate.sh. Their package is gospml.onnx, so that a program may link other messages of ONNX too.
package onnxpb
