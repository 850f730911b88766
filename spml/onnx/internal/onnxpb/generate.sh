#!/bin/sh
# Compiles onnx.proto, as the package onnx 1.23.2 publishes it, into Go: protoc 3.21 and protoc-gen-go v1.34.2 on PATH.
# The package of the messages becomes gospml.onnx, because a program that links two sets of messages of one name panics.
# Comments and the parts of struct tags that repeat the descriptor are left out.
set -eu
cd "$(dirname "$0")"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/gospml"
sed 's/^package onnx;/package gospml.onnx;/' onnx.proto >"$dir/gospml/onnx.proto"
protoc -I"$dir" --descriptor_set_out="$dir/set" gospml/onnx.proto
path=github.com/gospml/gospml/spml/onnx/internal/onnxpb
protoc --descriptor_set_in="$dir/set" --go_out="$dir" --go_opt=Mgospml/onnx.proto=$path,module=$path gospml/onnx.proto
sed -E 's/,(name|enum)=[^"]*" json:"[^"]*"`/"`/' "$dir/onnx.pb.go" | gofmt >onnx.pb.go
