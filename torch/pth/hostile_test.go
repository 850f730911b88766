package pth

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/stretchr/testify/require"
)

// Pieces of pickles, as bytes.
func u32(n uint32) string { return string(binary.LittleEndian.AppendUint32(nil, n)) }
func u64(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }
func str(s string) string { return "X" + u32(uint32(len(s))) + s }
func num(n int32) string  { return "J" + u32(uint32(n)) }
func long(n int64) string { return "\x8a\x08" + u64(uint64(n)) }
func glob(module, name string) string {
	return "c" + module + "\n" + name + "\n"
}
func tup(items ...string) string { return "(" + strings.Join(items, "") + "t" }

const (
	begin = "\x80\x02"
	hooks = "ccollections\nOrderedDict\n)R"
)

func storageID(class, key string, numel string) string {
	return tup(str("storage"), glob("torch", class), str(key), str("cpu"), numel) + "Q"
}

// tensor is a _rebuild_tensor_v2 of a view of storage "0", which holds four float32.
func tensor(offset string, shape, stride []string) string {
	return glob("torch._utils", "_rebuild_tensor_v2") + tup(storageID("FloatStorage", "0", num(4)), offset, tup(shape...), tup(stride...), "\x89", hooks) + "R"
}

func state(value string) string { return begin + "}" + str("w") + value + "s." }

// archiveOf is an archive with a pickle and one storage of 16 bytes.
func archiveOf(t testing.TB, pickle string, more ...entry) []byte {
	return archive(t, append([]entry{{"a/data.pkl", pickle, nil}, {"a/version", "3\n", nil}, {"a/data/0", strings.Repeat("\x00\x00\x80?", 4), nil}}, more...)...)
}

type entry struct {
	name, data string
	change     func(*zip.FileHeader)
}

// archive writes stored entries without data descriptors; change may make a header lie.
func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, e := range entries {
		n := uint64(len(e.data))
		h := &zip.FileHeader{Name: e.name, CRC32: crc32.ChecksumIEEE([]byte(e.data)), CompressedSize64: n, UncompressedSize64: n}
		if e.change != nil {
			e.change(h)
		}
		w, err := z.CreateRaw(h)
		require.NoError(t, err)
		_, err = io.WriteString(w, e.data)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return out.Bytes()
}

// legacyOf is a file of before 1.6.
func legacyOf(root, keys, data string) []byte {
	return []byte(begin + "\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19." + begin + "M\xe9\x03." +
		begin + "}(" + str("protocol_version") + "M\xe9\x03" + str("little_endian") + "\x88u." + root + keys + data)
}

// poke changes bytes after the first occurrence of a mark, counted from the end if last.
func poke(file []byte, mark string, last bool, at int, with string) []byte {
	i := bytes.Index(file, []byte(mark))
	if last {
		i = bytes.LastIndex(file, []byte(mark))
	}
	out := bytes.Clone(file)
	copy(out[i+at:], with)
	return out
}

func call(module, name, args string) string {
	return begin + glob(module, name) + args + "R."
}

// hostile are files that must be refused, with the reason that must be given.
func hostile(t testing.TB) map[string]struct {
	file []byte
	want string
} {
	type c = struct {
		file []byte
		want string
	}
	z := func(pickle string, more ...entry) []byte { return archiveOf(t, pickle, more...) }
	one := []string{num(4)}
	unit := []string{num(1)}
	good := state(tensor(num(0), one, unit))
	file := z(good)
	lone := legacyOf(state(tensor(num(0), one, unit)), begin+"]"+str("0")+"a.", u64(4)+strings.Repeat("\x00\x00\x80?", 4))
	_, err := Parse(bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err, "what the cases are made from is right")
	_, err = Parse(bytes.NewReader(lone), int64(len(lone)))
	require.NoError(t, err)
	numpyDtype := func(code string) string {
		return glob("numpy", "dtype") + tup(str(code), "\x89", "\x88") + "R" + tup("K\x03", str("<"), "NNN", num(-1), num(-1), "K\x00") + "b"
	}
	numpyArray := func(shape, dtype, data string) string {
		return glob("numpy.core.multiarray", "_reconstruct") + tup(glob("numpy", "ndarray"), tup("K\x00"), "C\x01b") + "R" + tup("K\x01", shape, dtype, "\x89", "C"+string(rune(len(data)))+data) + "b"
	}
	object := glob("__torch__", "M") + ")\x81"

	cases := map[string]c{
		// code
		"os.system":         {z(call("os", "system", tup(str("id")))), "the global os.system"},
		"posix.system":      {z(call("posix", "system", tup(str("id")))), "the global posix.system"},
		"nt.system":         {z(call("nt", "system", tup(str("id")))), "the global nt.system"},
		"builtins.eval":     {z(call("builtins", "eval", tup(str("1")))), "the global builtins.eval"},
		"__builtin__.exec":  {z(call("__builtin__", "exec", tup(str("1")))), "the global builtins.exec"},
		"getattr":           {z(call("builtins", "getattr", tup(hooks, str("clear")))), "the global builtins.getattr"},
		"__import__":        {z(call("builtins", "__import__", tup(str("os")))), "the global builtins.__import__"},
		"open":              {z(call("io", "open", tup(str("x")))), "the global io.open"},
		"subprocess":        {z(call("subprocess", "Popen", tup(str("id")))), "the global subprocess.Popen"},
		"runpy":             {z(call("runpy", "_run_code", tup(str("1")))), "the global runpy._run_code"},
		"torch.load":        {z(call("torch", "load", tup(str("x")))), "the global torch.load"},
		"torch.hub":         {z(call("torch.hub", "load", tup(str("x")))), "the global torch.hub.load"},
		"torch.jit.load":    {z(call("torch.jit._serialization", "load", tup(str("x")))), "the global torch.jit._serialization.load"},
		"load_from_bytes":   {z(call("torch.storage", "_load_from_bytes", tup("C\x01x"))), "the global torch.storage._load_from_bytes"},
		"ctypes":            {z(call("ctypes", "CDLL", tup(str("x")))), "the global ctypes.CDLL"},
		"copyreg":           {z(call("copyreg", "_reconstructor", tup(str("x")))), "the global copyreg._reconstructor"},
		"functools.partial": {z(call("functools", "partial", tup(str("x")))), "the global functools.partial"},
		"stack global":      {z(begin + str("os") + str("system") + "\x93" + tup(str("id")) + "R."), "the global os.system"},
		"dotted global":     {z(call("collections", "OrderedDict.__init__", tup())), "the global collections.OrderedDict.__init__"},
		"pickled model":     {z(begin + glob("torchvision.models.resnet", "ResNet") + ")\x81."), "save its state_dict() instead"},
		"script outside":    {z(begin + glob("__torch__", "M") + ")\x81."), "a TorchScript class outside a TorchScript archive"},
		"defaultdict":       {z(call("collections", "defaultdict", tup())), "the global collections.defaultdict"},
		"INST":              {z(begin + "(" + str("id") + "ios\nsystem\n."), "the instruction INST, which is refused: it calls code"},
		"OBJ":               {z(begin + "(" + hooks + "o."), "the instruction OBJ"},
		"EXT1":              {z(begin + "\x82\x01."), "the instruction EXT1"},
		"NEWOBJ_EX":         {z(begin + hooks + ")}\x92."), "the instruction NEWOBJ_EX"},
		"NEXT_BUFFER":       {z("\x80\x05\x97."), "the instruction NEXT_BUFFER"},
		"persistent text":   {z(begin + "Pos\n."), "the instruction PERSID"},
		"protocol 0":        {z("I1\n."), "the instruction INT, which is refused: it is of protocol 0"},
		"protocol 1":        {z("\x80\x01N."), "protocol 1: 2 to 5 are read"},
		"protocol 6":        {z("\x80\x06N."), "protocol 6: 2 to 5 are read"},
		"unknown op":        {z(begin + "\xff."), "the unknown instruction 0xff"},
		"call of a dict":    {z(begin + "}" + ")R."), "calls a dict, which is no function"},
		"call of a value":   {z(begin + glob("torch", "Tensor") + ")R."), "calls torch.Tensor, which is refused"},
		"call with a list":  {z(begin + glob("collections", "OrderedDict") + "]R."), "calls with a list for arguments"},
		"new of a str":      {z(begin + str("x") + ")\x81."), "makes an object of a str"},
		"state of a tensor": {z(state(tensor(num(0), one, unit) + "}b")), "sets the state of a tensor, which is refused"},
		"state of a list":   {z(begin + "]}b."), "sets the state of a list"},
		"hooks":             {z(state(strings.Replace(tensor(num(0), one, unit), "\x89"+hooks, "\x89"+hooks+str("h")+"Ns", 1))), "it carries backward hooks"},
		"other class":       {z(state(glob("torch._tensor", "_rebuild_from_type_v2") + tup(glob("torch._utils", "_rebuild_tensor_v2"), hooks, tup(), "N") + "R")), "a tensor of the class dict"},
		"other function":    {z(state(glob("torch._tensor", "_rebuild_from_type_v2") + tup(glob("torch", "device"), glob("torch", "Tensor"), tup(), "N") + "R")), "made by a class torch.device"},
		"module id":         {z(begin + tup(str("module"), hooks, str("x"), str("y"), num(1)) + "Q."), `a persistent id is of "module": only storages are read`},
		"number id":         {z(begin + "K\x01Q."), "a persistent id is a int"},
		"Git LFS pointer":   {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), "Git LFS pointer"},
		"web page":          {[]byte("<!DOCTYPE html><html></html>"), "a web page"},
		"safetensors":       {[]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"), "begins as a safetensors file"},
		"tar of 0.1":        {append(append(make([]byte, 257), "ustar"...), make([]byte, 512)...), "a tar archive of PyTorch 0.1"},
		"empty":             {nil, "0 bytes are no PyTorch file"},
		"text":              {[]byte("hello world"), "neither a zip archive nor a pickle"},

		// tensors that torch.load reads and this package does not
		"sparse":     {z(call("torch._utils", "_rebuild_sparse_tensor", tup())), "it holds a sparse tensor"},
		"quantized":  {z(call("torch._utils", "_rebuild_qtensor", tup())), "it holds a quantized tensor"},
		"nested":     {z(call("torch._utils", "_rebuild_nested_tensor", tup())), "it holds a nested tensor"},
		"meta":       {z(call("torch._utils", "_rebuild_meta_tensor_no_storage", tup())), "without data on the meta device"},
		"conjugated": {z(state(strings.Replace(tensor(num(0), one, unit), "\x89"+hooks, "\x89"+hooks+"}"+str("conj")+"\x88s", 1))), "conjugated or negated lazily"},
		"layout":     {z(call("torch.serialization", "_get_layout", tup(str("torch.sparse_coo")))), "only the layout torch.strided"},

		// bombs
		"object bomb":        {z(begin + strings.Repeat("}", 200000) + "."), "an object bomb?"},
		"list bomb":          {z(begin + strings.Repeat("]", 200000) + "."), "an object bomb?"},
		"mark bomb":          {z(begin + strings.Repeat("(", 400000) + "."), "an object bomb?"},
		"stack bomb":         {z(begin + strings.Repeat("N", 400000) + "."), "an object bomb?"},
		"tuple bomb":         {z(begin + strings.Repeat("N\x85", 100000) + "."), "an object bomb?"},
		"memo bomb":          {z(begin + "N" + strings.Repeat("\x94", 300000) + "."), "an object bomb?"},
		"sparse memo bomb":   {z(begin + "N" + memoBomb(20000) + "."), "an object bomb?"},
		"copy bomb":          {z(copyBomb()), "an object bomb?"},
		"nested tuple":       {z(begin + ")" + strings.Repeat("\x85", 100000) + "."), "an object bomb?"},
		"string bomb":        {z(begin + "X\xff\xff\xff\xff" + "."), "a string of 4294967295 bytes where 1 are left"},
		"bytes bomb":         {z("\x80\x04\x8e" + u64(1<<62) + "."), "a string of 4611686018427387904 bytes"},
		"integer bomb":       {z(begin + "\x8b" + u32(1<<20) + "."), "an integer of 1048576 bytes"},
		"frame bomb":         {z("\x80\x04\x95" + u64(1<<40) + "N."), "a frame of 1099511627776 bytes"},
		"global bomb":        {z(begin + "c" + strings.Repeat("a", 10000) + "\n."), "the name of a global is longer than 256 bytes"},
		"bytearray bomb":     {z(call("builtins", "bytearray", tup(long(1<<40)))), "builtins.bytearray: made from a int"},
		"module cycle":       {archive(t, entry{"a/data.pkl", begin + object + "q\x00}" + str("m") + "h\x00sb.", nil}, entry{"a/constants.pkl", ".", nil}), "nested deeper than 64"},
		"module doubling":    {archive(t, entry{"a/data.pkl", doubling(40), nil}, entry{"a/constants.pkl", ".", nil}), "hold each other many times"},
		"nothing to stop":    {z("."), "pickle takes more from the stack"},
		"zip bomb":           {archive(t, entry{"a/data.pkl", "\x01\x00", func(h *zip.FileHeader) { h.Method, h.UncompressedSize64 = 8, 1<<40 }}), "is compressed (method 8, expands from 2 bytes to 1099511627776)"},
		"compressed storage": {archive(t, entry{"a/data.pkl", good, nil}, entry{"a/data/0", "x", func(h *zip.FileHeader) { h.Method, h.UncompressedSize64 = 8, 16 }}), `entry "a/data/0" is compressed`},
		"dimensions":         {z(state(tensor(num(0), many(num(1), 65), many(num(1), 65)))), "65 dimensions, at most 64"},
		"tuple key":          {z(begin + "}" + tup(many("N", 17)...) + "Ns."), "a dict key is a tuple of 17 elements"},

		// sizes
		"beyond":              {z(state(tensor(num(1), one, unit))), "reaches beyond its storage"},
		"stride beyond":       {z(state(tensor(num(0), one, []string{num(2)}))), "reaches beyond its storage"},
		"negative offset":     {z(state(tensor(num(-1), one, unit))), "begins at element -1"},
		"negative size":       {z(state(tensor(num(0), []string{num(-4)}, unit))), "negative dimension"},
		"negative stride":     {z(state(tensor(num(3), one, []string{num(-1)}))), "the negative stride -1"},
		"overflow size":       {z(state(tensor(num(0), []string{long(1 << 40), long(1 << 40)}, []string{"K\x00", "K\x00"}))), "overflows 64 bits"},
		"overflow stride":     {z(state(tensor(num(0), []string{num(4), num(4)}, []string{long(1 << 62), num(1)}))), "overflows 64 bits"},
		"ranks differ":        {z(state(tensor(num(0), one, nil))), "1 dimensions and 0 strides"},
		"float size":          {z(state(tensor(num(0), []string{"G\x40\x10\x00\x00\x00\x00\x00\x00"}, unit))), "a dimension is a float"},
		"huge size":           {z(state(tensor(num(0), []string{"\x8a\x0a" + u64(0) + "\x01\x00"}, unit))), "a whole number within 64 bits is expected"},
		"offset is text":      {z(state(tensor(str("0"), one, unit))), "the offset is a str"},
		"numel beyond":        {z(state(strings.Replace(tensor(num(0), one, unit), str("cpu")+num(4), str("cpu")+num(5), 1))), `storage "0" has 16 bytes, 5 of float32 take 20`},
		"numel short":         {z(state(strings.Replace(tensor(num(0), one, unit), str("cpu")+num(4), str("cpu")+num(3), 1))), `storage "0" has 16 bytes, 3 of float32 take 12`},
		"numel negative":      {z(state(strings.Replace(tensor(num(0), one, unit), str("cpu")+num(4), str("cpu")+num(-4), 1))), `storage "0" has -4 elements`},
		"numel overflow":      {z(state(strings.Replace(tensor(num(0), one, unit), str("cpu")+num(4), str("cpu")+long(1<<62), 1))), "elements"},
		"absent storage":      {z(state(strings.Replace(tensor(num(0), one, unit), str("0"), str("1"), 1))), `storage "1" is not in the archive`},
		"path storage":        {z(state(strings.Replace(tensor(num(0), one, unit), str("0"), str("../../etc/passwd"), 1))), `storage "../../etc/passwd" is not in the archive`},
		"two types":           {z(begin + storageID("FloatStorage", "0", num(4)) + storageID("IntStorage", "0", num(4)) + "\x86."), `storage "0" is once 4 of float32 and once 4 of int32`},
		"unknown storage":     {z(begin + storageID("QInt8Storage", "0", num(4)) + "."), "the global torch.QInt8Storage"},
		"storage class":       {z(begin + tup(str("storage"), glob("torch", "Tensor"), str("0"), str("cpu"), num(4)) + "Q."), "is of the class torch.Tensor"},
		"storage key":         {z(begin + tup(str("storage"), glob("torch", "FloatStorage"), num(0), str("cpu"), num(4)) + "Q."), "a storage is made of a"},
		"view in an archive":  {z(begin + tup(str("storage"), glob("torch", "FloatStorage"), str("0"), str("cpu"), num(4), tup(str("v"), num(0), num(4))) + "Q."), "a view, which archives do not have"},
		"numpy objects":       {z(begin + numpyDtype("O8") + "."), "holds Python objects"},
		"numpy size":          {z(begin + numpyArray(tup(num(1000)), numpyDtype("f8"), "xxxxxxxx") + "."), "takes 8000 bytes, only 8 follow"},
		"numpy twice":         {z(begin + numpyArray(tup(num(1)), numpyDtype("f8"), "xxxxxxxx") + tup() + "b."), "sets the state of a numpy array twice"},
		"numpy code":          {z(begin + numpyDtype("f8',}") + "."), "is not read"},
		"latin1":              {z(call("_codecs", "encode", tup(str("✓"), str("latin1")))), "is not in latin1"},
		"encode":              {z(call("_codecs", "encode", tup(str("x"), str("rot13")))), "only text is encoded, as latin1"},
		"not UTF-8":           {z(begin + "U\x01\xff."), "not UTF-8"},
		"unhashable":          {z(begin + "}]Ns."), "a dict key is a list"},
		"odd items":           {z(begin + "}(Nu."), "a key without a value"},
		"append to a dict":    {z(begin + "}Na."), "appends to a dict"},
		"set items of a list": {z(begin + "]NNs."), "sets items of a list"},
		"underflow":           {z(begin + "R."), "takes more from the stack than is there"},
		"mark underflow":      {z(begin + "(N(\x86."), "takes more from the stack than is there"},
		"no mark":             {z(begin + "Nt."), "lacks a mark"},
		"unset memo":          {z(begin + "h\x07."), "reads memo 7, which is not set"},
		"unset far memo":      {z(begin + "j\xff\xff\xff\xff."), "reads memo 4294967295, which is not set"},
		"left on the stack":   {z(begin + "NN."), "stops with 1 objects left"},
		"open mark":           {z(begin + "N(N."), "stops with 1 objects left"},
		"behind the pickle":   {z(good + "N."), "2 bytes follow the end of the pickle"},
		"no stop":             {z(begin + "N"), "ends within an instruction"},

		// the archive
		"cut archive":        {file[:len(file)-30], "whose end is not there: is it truncated?"},
		"cut in the middle":  {file[:len(file)/2], "whose end is not there"},
		"only a head":        {[]byte("PK\x03\x04"), "too few for a zip archive"},
		"empty directory":    {append([]byte("PK\x03\x04"), endOf(0, 0, 4)...), "the archive is empty"},
		"directory beyond":   {poke(file, "PK\x05\x06", true, 16, u32(1<<30)), "does not lie before its end"},
		"directory too long": {poke(file, "PK\x05\x06", true, 12, u32(1<<30)), "does not lie before its end"},
		"entries too many":   {poke(file, "PK\x05\x06", true, 8, "\xf0\xff\xf0\xff"), "says 65520 entries in"},
		"entries too few":    {poke(file, "PK\x05\x06", true, 8, "\x01\x00\x01\x00"), "follow the last entry"},
		"entries differ":     {poke(file, "PK\x05\x06", true, 8, "\x01\x00"), "says 1 and 3 entries"},
		"several parts":      {poke(file, "PK\x05\x06", true, 4, "\x01\x00"), "one of several parts"},
		"damaged directory":  {poke(file, "PK\x01\x02", false, 0, "PX"), "directory is damaged"},
		"long name":          {poke(file, "PK\x01\x02", true, 28, "\xff\xff"), "directory is damaged"},
		"local header moved": {poke(file, "PK\x01\x02", true, 42, u32(3)), "there is no local header at 3"},
		"local beyond":       {poke(file, "PK\x01\x02", true, 42, u32(1<<30)), "it lies beyond the archive's data"},
		"overlap":            {poke(file, "PK\x01\x02", true, 42, u32(0)), "local header has another name"},
		"overlapping sizes":  {poke(poke(file, "PK\x01\x02", false, 20, u32(uint32(len(good)+40))), "PK\x01\x02", false, 24, u32(uint32(len(good)+40))), "overlap"},
		"entry beyond":       {poke(poke(file, "PK\x01\x02", true, 20, u32(1<<20)), "PK\x01\x02", true, 24, u32(1<<20)), "reach beyond the archive's data"},
		"two sizes":          {archive(t, entry{"a/data.pkl", good, func(h *zip.FileHeader) { h.UncompressedSize64++ }}), "its two sizes differ"},
		"methods differ":     {poke(file, "PK\x03\x04", false, 8, "\x08\x00"), "compression method 0, its local header 8"},
		"names differ":       {poke(file, "PK\x03\x04", false, 30, "b"), "local header has another name"},
		"encrypted":          {archive(t, entry{"a/data.pkl", good, func(h *zip.FileHeader) { h.Flags |= 1 }}), "is encrypted"},
		"twice":              {archive(t, entry{"a/data.pkl", good, nil}, entry{"a/data.pkl", good, nil}), `"a/data.pkl" occurs twice`},
		"no pickle":          {archive(t, entry{"a/x", "", nil}), "the archive has no a/data.pkl"},
		"no folder":          {archive(t, entry{"data.pkl", good, nil}), "not written by PyTorch"},
		"other version":      {archive(t, entry{"a/data.pkl", good, nil}, entry{"a/version", "11", nil}), `of version "11": 1 to 10 are read`},
		"no version":         {archive(t, entry{"a/data.pkl", good, nil}, entry{"a/version", "x", nil}), `of version "x"`},
		"byte order":         {archive(t, entry{"a/data.pkl", good, nil}, entry{"a/byteorder", "middle", nil}), `the byte order is "middle"`},
		"long version":       {archive(t, entry{"a/data.pkl", good, nil}, entry{"a/version", strings.Repeat("3", 100), nil}), "a word is expected"},
		"64-bit end":         {append(bytes.Clone(file[:len(file)-endSize]), "PK\x06\x07"+u32(0)+u64(1<<60)+u32(1)+string(file[len(file)-endSize:])...), "the archive's 64-bit end lies at"},
		"no 64-bit end":      {append(bytes.Clone(file[:len(file)-endSize]), "PK\x06\x07"+u32(0)+u64(0)+u32(1)+string(file[len(file)-endSize:])...), "64-bit end is not at 0"},
		"no 64-bit size":     {poke(file, "PK\x01\x02", true, 20, "\xff\xff\xff\xff"), "reach beyond the archive's data"},

		// the stream of before 1.6
		"no magic":         {[]byte(begin + "K\x01."), "its magic number is missing"},
		"stream version":   {[]byte(begin + "\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19." + begin + "K\x01."), "its version is 1, 1001 is read"},
		"machine":          {[]byte(begin + "\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19." + begin + "M\xe9\x03." + begin + "N."), "the facts about the machine are a None"},
		"stream code":      {legacyOf(call("os", "system", tup(str("id"))), "", ""), "the global os.system"},
		"code in the keys": {legacyOf(good, call("os", "system", tup(str("id"))), ""), "the global os.system"},
		"keys":             {legacyOf(good, begin+"N.", ""), "the storages' keys are a None"},
		"keys too many":    {legacyOf(good, begin+"]("+str("0")+str("1")+"e.", ""), "it holds 2 storages and refers to 1"},
		"keys unknown":     {legacyOf(good, begin+"]"+str("1")+"a.", u64(4)), `it holds storage "1", to which nothing refers`},
		"keys no text":     {legacyOf(good, begin+"]Na.", u64(4)), "to which nothing refers"},
		"storage as key":   {legacyOf(good, begin+"]"+storageID("FloatStorage", "0", num(4))+"a.", u64(4)), "a storage stands where none can be"},
		"storage as magic": {[]byte("\x80\x03()tQ."), "a storage stands where none can be"},
		"no count":         {legacyOf(good, begin+"]"+str("0")+"a.", "\x04"), `it ends before storage "0"`},
		"other count":      {legacyOf(good, begin+"]"+str("0")+"a.", u64(5)+strings.Repeat("x", 20)), `storage "0" has 5 elements, its tensors expect 4`},
		"cut storage":      {lone[:len(lone)-1], "takes 16 bytes where 15 are left: is it truncated?"},
		"behind the last":  {append(bytes.Clone(lone), 0), "1 bytes follow the last storage"},
		"view beyond": {legacyOf(begin+tup(str("storage"), glob("torch", "FloatStorage"), str("0"), str("cpu"), num(4), tup(str("v"), num(2), num(3)))+"Q.",
			begin+"]"+str("0")+"a.", u64(4)+strings.Repeat("x", 16)), "reaches beyond storage"},
		"view overflow": {legacyOf(begin+tup(str("storage"), glob("torch", "FloatStorage"), str("0"), str("cpu"), num(4), tup(str("v"), long(1<<62), long(1<<62)))+"Q.",
			begin+"]"+str("0")+"a.", u64(4)+strings.Repeat("x", 16)), "reaches beyond storage"},
		"nothing follows": {legacyOf("", "", ""), "ends within an instruction"},
	}
	return cases
}

func many(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

func memoBomb(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("r" + u32(uint32(i)<<8|0x80000001))
	}
	return b.String()
}

// copyBomb copies a dict of 1,000 keys 1,000 times.
func copyBomb() string {
	var b strings.Builder
	b.WriteString(begin + "}(")
	for i := range 1000 {
		b.WriteString(num(int32(i)) + "N")
	}
	b.WriteString("uq\x00")
	for range 1000 {
		b.WriteString(glob("collections", "Counter") + "h\x00\x85R")
	}
	return b.String() + "."
}

// doubling is a chain of modules that each hold the next twice.
func doubling(n int) string {
	object := glob("__torch__", "M") + ")\x81"
	expr := object + "}" + str("w") + "Nsb"
	for i := range n {
		memo := string([]byte{byte(i)})
		expr = object + "}" + str("a") + expr + "q" + memo + "s" + str("b") + "h" + memo + "sb"
	}
	return begin + expr + "."
}

func endOf(count uint16, length, at uint32) []byte {
	b := []byte("PK\x05\x06\x00\x00\x00\x00")
	b = binary.LittleEndian.AppendUint16(b, count)
	b = binary.LittleEndian.AppendUint16(b, count)
	return append(append(b, u32(length)+u32(at)...), 0, 0)
}

// parseAll opens a file and reads every tensor.
func parseAll(file []byte) error {
	f, err := Parse(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return err
	}
	_, err = f.StateDict()
	return err
}

func TestHostile(t *testing.T) {
	cases := hostile(t)
	require.Greater(t, len(cases), 150)
	for name, c := range cases {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			before := allocated()
			err := parseAll(c.file)
			used := allocated() - before
			var fe *FormatError
			require.ErrorAs(t, err, &fe, name)
			require.ErrorContains(t, err, c.want, name)
			require.Less(t, len(err.Error()), 1000, name)
			require.LessOrEqual(t, used, uint64(len(c.file)+slack), name)
		})
	}
}

// allocated is the sum of all allocations so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestTruncated cuts files at every length.
func TestTruncated(t *testing.T) {
	for _, name := range []string{"tied.pth", "views_legacy.pth"} {
		whole, err := os.ReadFile(testroot.Testdata("pth", name))
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "cut.pth")
		for n := 0; n < len(whole); n += 3 {
			require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
			_, err := Open(path)
			var fe *FormatError
			require.ErrorAs(t, err, &fe, "%d bytes", n)
			require.Equal(t, path, fe.Path)
		}
	}
}

// TestExpanded: a stride of 0 must not make a small file large.
func TestExpanded(t *testing.T) {
	file := archiveOf(t, state(tensor(num(0), []string{long(1 << 40), num(4)}, []string{"K\x00", num(1)})))
	f, err := Parse(bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err)
	e, err := f.StateDict()
	require.NoError(t, err)
	_, err = f.Bytes(e[0].Tensor)
	require.ErrorContains(t, err, "expands 16 bytes to 17592186044416")
	whole := make([]byte, 16)
	require.NoError(t, f.ReadStorage(e[0].Tensor.Storage, Float32, whole))
}

// TestMoreMemory: a trusted file with many objects is read with a limit.
func TestMoreMemory(t *testing.T) {
	var b strings.Builder
	b.WriteString(begin + "}(")
	for i := range 20000 {
		b.WriteString(num(int32(i)) + "}")
	}
	path := filepath.Join(t.TempDir(), "vocabulary.pth")
	require.NoError(t, os.WriteFile(path, archiveOf(t, b.String()+"u."), 0o600))
	_, err := Open(path)
	require.ErrorContains(t, err, "OpenLimit reads trusted files")
	f, err := OpenLimit(path, 64<<20)
	require.NoError(t, err)
	defer f.Close()
	require.Len(t, f.Root().(*Dict).Items, 20000)
	v, ok := f.Root().(*Dict).Get(int64(19999))
	require.True(t, ok)
	require.Equal(t, &Dict{}, v)
}

// TestSystemErrors: what is not the file's fault is not called so.
func TestSystemErrors(t *testing.T) {
	boom := errors.New("the disk is gone")
	file := archiveOf(t, state(tensor(num(0), []string{num(4)}, []string{num(1)})))
	for n := range 12 {
		r := &failing{r: bytes.NewReader(file), left: n, err: boom}
		_, err := Parse(r, int64(len(file)))
		if r.left >= 0 {
			require.NoError(t, err)
			break
		}
		require.ErrorIs(t, err, boom, n)
	}
	_, err := Parse(io.NewSectionReader(bytes.NewReader(file), 0, 100), int64(len(file)))
	require.ErrorContains(t, err, "cut short meanwhile")
}

type failing struct {
	r    io.ReaderAt
	left int
	err  error
}

func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, f.err
	}
	return f.r.ReadAt(p, off)
}
