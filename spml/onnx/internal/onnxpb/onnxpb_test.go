package onnxpb

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// published is the definition under the names that other programs link it by.
func published(t *testing.T, path string) protoreflect.FileDescriptor {
	d := proto.Clone(protodesc.ToFileDescriptorProto(File_gospml_onnx_proto)).(*descriptorpb.FileDescriptorProto)
	b, err := proto.Marshal(d)
	require.NoError(t, err)
	require.NoError(t, proto.Unmarshal(b, d))
	var rename func(m *descriptorpb.DescriptorProto)
	rename = func(m *descriptorpb.DescriptorProto) {
		for _, f := range m.Field {
			if f.TypeName != nil {
				f.TypeName = proto.String(strings.Replace(f.GetTypeName(), ".gospml.onnx.", ".onnx.", 1))
			}
		}
		for _, n := range m.NestedType {
			rename(n)
		}
	}
	for _, m := range d.MessageType {
		rename(m)
	}
	d.Name, d.Package = &path, proto.String("onnx")
	f, err := protodesc.NewFile(d, nil)
	require.NoError(t, err)
	return f
}

// TestBesideOthers: a program that links other messages of ONNX registers both, which panics where names meet, and
// reads with the one what the other wrote.
func TestBesideOthers(t *testing.T) {
	f := published(t, "onnx/onnx.proto")
	require.NoError(t, protoregistry.GlobalFiles.RegisterFile(f))
	model := dynamicpb.NewMessageType(f.Messages().ByName("ModelProto"))
	require.NoError(t, protoregistry.GlobalTypes.RegisterMessage(model))
	b, err := proto.Marshal(&ModelProto{IrVersion: proto.Int64(8), ProducerName: proto.String("gospml"),
		Graph: &GraphProto{Name: proto.String("g"), Node: []*NodeProto{{OpType: proto.String("Conv")}}}})
	require.NoError(t, err)
	m := model.New()
	require.NoError(t, proto.Unmarshal(b, m.Interface()))
	require.Equal(t, "gospml", m.Get(model.Descriptor().Fields().ByName("producer_name")).String())

	require.Panics(t, func() { _ = protoregistry.GlobalFiles.RegisterFile(published(t, "gospml/onnx.proto")) },
		"names that meet")
}

// TestCompiled: the messages are those of the definition beside them.
func TestCompiled(t *testing.T) {
	b, err := os.ReadFile("onnx.proto")
	require.NoError(t, err)
	text := regexp.MustCompile(`//.*`).ReplaceAllString(string(b), "")
	fields := 0
	var count func(m protoreflect.MessageDescriptor)
	count = func(m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			declared := regexp.MustCompile(`\b` + string(f.Name()) + `\s*=\s*` + strconv.Itoa(int(f.Number())) + `\s*[;\[]`)
			require.True(t, declared.MatchString(text), f.FullName())
			fields++
		}
		for i := range m.Messages().Len() {
			count(m.Messages().Get(i))
		}
	}
	for i := range File_gospml_onnx_proto.Messages().Len() {
		count(File_gospml_onnx_proto.Messages().Get(i))
	}
	declarations := regexp.MustCompile(`[\w.]+\s+\w+\s*=\s*\d+\s*[;\[]`)
	require.Len(t, declarations.FindAllString(text, -1), fields)
	require.Contains(t, text, "package onnx;")
}
