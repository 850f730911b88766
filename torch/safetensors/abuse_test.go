package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// withHeader builds a file from a header's text and n bytes of data.
func withHeader(header string, n int) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	file = append(file, header...)
	return append(file, make([]byte, n)...)
}

func entry(name, dtype, shape string, begin, end int64) string {
	return fmt.Sprintf(`%q:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, name, dtype, shape, begin, end)
}

func parseBytes(file []byte) (*File, error) { return Parse(bytes.NewReader(file), int64(len(file))) }

// TestAbuse: files that break the rules, each refused with a reason that says which.
func TestAbuse(t *testing.T) {
	a := entry("a", "F32", "[2]", 0, 8)
	with := func(from, to string) string { return "{" + strings.Replace(a, from, to, 1) + "}" }
	metadata := func(text string) string { return `{"__metadata__":` + text + `,` + a + `}` }
	withLength := func(n uint64) []byte {
		file := withHeader("{"+a+"}", 8)
		binary.LittleEndian.PutUint64(file, n)
		return file
	}
	overlapping := "{" + entry("w0", "F32", "[200,200]", 0, 160000)
	for i := range 99 {
		overlapping += "," + entry(fmt.Sprint("w", i+1), "F32", "[200,200]", 0, 160000)
	}
	_, err := parseBytes(withHeader("{"+a+"}", 8))
	require.NoError(t, err) // what the variants below start from

	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty file":                      {nil, "0 bytes are too few"},
		"length only":                     {make([]byte, 8), "does not begin with {"},
		"length beyond the file":          {withLength(1000), "says 1000 bytes, the file has only"},
		"length one beyond":               {withLength(uint64(len(a)+2) + 9), "is it truncated?"},
		"length above the cap":            {withLength(MaxHeader + 1), "at most 100000000 are allowed"},
		"length of 64 ones":               {withLength(math.MaxUint64), "at most 100000000 are allowed"},
		"length that wraps":               {withLength(math.MaxUint64 - 7), "at most 100000000 are allowed"},
		"length too short":                {withLength(uint64(len(a) + 1)), "the JSON ends where"},
		"many tensors on the same bytes":  {withHeader(overlapping+"}", 160000), "inside the tensor before it"},
		"overlap":                         {withHeader("{"+a+","+entry("b", "F32", "[2]", 4, 12)+"}", 12), "inside the tensor before it"},
		"hole between":                    {withHeader("{"+a+","+entry("b", "F32", "[2]", 9, 17)+"}", 17), `bytes 8 to 9 of the data, before tensor "b"`},
		"hole before":                     {withHeader("{"+entry("b", "F32", "[2]", 1, 9)+"}", 9), "bytes 0 to 1"},
		"bytes behind the last":           {withHeader("{"+a+"}", 9), "ends at byte 8 of the data, the file goes on to 9"},
		"bytes without tensors":           {withHeader("{}", 1), "goes on to 1"},
		"data missing":                    {withHeader("{"+a+"}", 7), "ends at byte 8 of the data, the file has only 7"},
		"empty tensor beyond the end":     {withHeader("{"+a+","+entry("b", "F32", "[0]", 9, 9)+"}", 8), "the file has only 8"},
		"offsets backwards":               {withHeader("{"+a+","+entry("b", "F32", "[0]", 8, 0)+"}", 8), "run backwards"},
		"offset beyond 64 bits":           {withHeader(with("[0,8]", "[0,18446744073709551624]"), 8), "beyond 63 bits"},
		"offset of 63 bits":               {withHeader(with("[0,8]", "[9223372036854775799,9223372036854775807]"), 8), "has only 8"},
		"negative offset":                 {withHeader(with("[0,8]", "[-8,0]"), 8), "negative number"},
		"three offsets":                   {withHeader(with("[0,8]", "[0,8,8]"), 8), "holds 3 numbers, not 2"},
		"size differs from shape":         {withHeader(with("[2]", "[3]"), 8), "shape [3] in F32 takes 12 bytes, data_offsets [0, 8] hold 8"},
		"shape overflows to the size":     {withHeader(with("[2]", "[4611686018427387905,2,1]"), 8), "overflows 64 bits"},
		"shape times dtype overflows":     {withHeader(with("[2]", "[4611686018427387906]"), 8), "overflows 64 bits"},
		"shape overflows before a zero":   {withHeader("{"+entry("a", "F32", "[4294967296,4294967296,0]", 0, 0)+"}", 0), "overflows 64 bits"},
		"negative dimension":              {withHeader(with("[2]", "[-2]"), 8), "negative number"},
		"fraction in shape":               {withHeader(with("[2]", "[2.0]"), 8), "fraction"},
		"exponent in shape":               {withHeader(with("[2]", "[2e0]"), 8), "exponent"},
		"leading zero in shape":           {withHeader(with("[2]", "[02]"), 8), "leading zero"},
		"string in shape":                 {withHeader(with("[2]", `["2"]`), 8), "whole number is expected"},
		"shape is a number":               {withHeader(with("[2]", "2"), 8), `'[' is expected`},
		"65 dimensions":                   {withHeader(with("[2]", "[2"+strings.Repeat(",1", 64)+"]"), 8), "more than 64 dimensions"},
		"half a byte":                     {withHeader("{"+entry("a", "F4", "[3]", 0, 1)+"}", 1), "does not fill whole bytes"},
		"unknown dtype":                   {withHeader(with("F32", "F33"), 8), `unknown dtype "F33"`},
		"dtype in lower case":             {withHeader(with("F32", "f32"), 8), `unknown dtype "f32"`},
		"field in upper case":             {withHeader(with(`"dtype"`, `"Dtype"`), 8), `unknown field "Dtype"`},
		"dtype missing":                   {withHeader(with(`"dtype":"F32",`, ``), 8), "is missing"},
		"shape missing":                   {withHeader(with(`"shape":[2],`, ``), 8), "is missing"},
		"offsets missing":                 {withHeader(with(`,"data_offsets":[0,8]`, ``), 8), "is missing"},
		"field twice":                     {withHeader(with(`"shape":[2]`, `"shape":[2],"shape":[2]`), 8), "a field occurs twice"},
		"dtype twice":                     {withHeader(with(`"shape":[2]`, `"shape":[2],"dtype":"F32"`), 8), "a field occurs twice"},
		"unknown field":                   {withHeader(with(`"shape"`, `"order":"F","shape"`), 8), `unknown field "order"`},
		"tensor twice":                    {withHeader("{"+a+","+a+"}", 8), `tensor "a" occurs twice`},
		"tensor twice, one escaped":       {withHeader("{"+a+","+entry("b", "F32", "[0]", 8, 8)+`,"\u0061":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}`, 8), `tensor "a" occurs twice`},
		"metadata twice":                  {withHeader(`{"__metadata__":{},"__metadata__":{},`+a+`}`, 8), "__metadata__ occurs twice"},
		"metadata twice, one null":        {withHeader(`{"__metadata__":null,`+a+`,"\u005f_metadata__":{}}`, 8), "__metadata__ occurs twice"},
		"metadata key twice":              {withHeader(metadata(`{"k":"1","k":"1"}`), 8), `metadata key "k" occurs twice`},
		"metadata value is a number":      {withHeader(metadata(`{"k":1}`), 8), `metadata "k" must be a string`},
		"metadata value is an object":     {withHeader(metadata(`{"k":{}}`), 8), `metadata "k" must be a string`},
		"metadata is a list":              {withHeader(metadata(`[]`), 8), `'{' is expected`},
		"metadata has too many entries":   {withHeader(metadata("{"+numbered(MaxMetadata+1)+"}"), 8), "more than 4096 metadata entries"},
		"white space first":               {withHeader(" {"+a+"}", 8), "does not begin with {"},
		"a list":                          {withHeader("[]", 0), "does not begin with {"},
		"text behind the header":          {withHeader("{"+a+"}PK\x03\x04", 8), "behind the header's closing }"},
		"NUL behind the header":           {withHeader("{"+a+"}\x00", 8), "behind the header's closing }"},
		"second object":                   {withHeader("{"+a+"}{}", 8), "behind the header's closing }"},
		"not closed":                      {withHeader("{"+a, 8), "the JSON ends where ',' or '}' is expected"},
		"trailing comma":                  {withHeader("{"+a+",}", 8), `found '}' where '"' is expected`},
		"colon missing":                   {withHeader(`{"a" 1}`, 0), "':' is expected"},
		"tensor is null":                  {withHeader(`{"a":null}`, 0), "'{' is expected"},
		"not UTF-8":                       {withHeader(with(`"a"`, "\"a\xff\""), 8), "not valid UTF-8"},
		"control character":               {withHeader(with(`"a"`, "\"a\n\""), 8), "control character 0x0a"},
		"unknown escape":                  {withHeader(with(`"a"`, `"\x61"`), 8), `unknown escape \x`},
		"escape without digits":           {withHeader(with(`"a"`, `"\u00g0"`), 8), "hexadecimal"},
		"half a surrogate pair":           {withHeader(with(`"a"`, `"\ud83d"`), 8), "surrogate"},
		"surrogates in the wrong order":   {withHeader(with(`"a"`, `"\ude00\ud83d"`), 8), "surrogate"},
		"string does not end":             {withHeader(`{"a`, 0), "a string does not end"},
		"string ends in a backslash":      {withHeader(`{"a\`, 0), "a string does not end"},
		"string ends in an escape":        {withHeader(`{"a\u00`, 0), "a string does not end"},
		"nested 100,000 deep":             {withHeader(strings.Repeat(`{"a":`, 100_000), 0), "unknown field"},
		"a name of a megabyte in the way": {withHeader("{"+entry(strings.Repeat("n", 1<<20), "F33", "[2]", 0, 8)+"}", 8), "unknown dtype"},
	} {
		t.Run(name, func(t *testing.T) {
			before := allocated()
			_, err := parseBytes(c.file)
			var fe *FormatError
			require.ErrorAs(t, err, &fe)
			require.ErrorContains(t, err, c.want)
			require.Less(t, len(err.Error()), 1000)
			require.LessOrEqual(t, allocated()-before, uint64(len(c.file)+1<<20))
		})
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%x":""`, i)
	}
	return b.String()
}

// TestUnusualButValid: what the reference implementation accepts.
func TestUnusualButValid(t *testing.T) {
	b := `"b":{"data_offsets":[4,12],"shape":[2],"dtype":"F32"}`
	a := entry("a", "I32", "[]", 0, 4)
	for header, names := range map[string][]string{
		"{}":                           {},
		"{}   \r\n\t":                  {},
		"{ " + b + " ,\n\t" + a + " }": {"a", "b"},
		`{"__metadata__":null,` + a + "," + b + "}":                                                {"a", "b"},
		"{" + b + `,"__metadata__":{"long":"` + strings.Repeat("v", 1000) + `"},` + a + "}":        {"a", "b"},
		"{" + b + "," + a + `,"__metadata__":{}}`:                                                  {"a", "b"},
		`{"":{"dtype":"F32","shape":[1,3],"data_offsets":[0,12]}}`:                                 {""},
		`{"\ud83d\ude00\/\b\f\n\r\t\"\\\u00e9":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}`: {"😀/\b\f\n\r\t\"\\é"},
		"{" + entry("z", "F64", "[0,9223372036854775807]", 0, 0) + "," + b + "," + a + "}":         {"z", "a", "b"},
		"{" + a + "," + b + "," + entry("z", "F64", "[0]", 4, 4) + "}":                             {"a", "z", "b"},
	} {
		n := 12
		if len(names) == 0 {
			n = 0
		}
		f, err := parseBytes(withHeader(header, n))
		require.NoError(t, err, header)
		require.Equal(t, names, f.Names())
		for _, name := range names {
			_, ok := f.Info(name)
			require.True(t, ok)
		}
	}
}

// TestLengthsOfNames: the record that replaces the text may begin where the name still stands.
func TestLengthsOfNames(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 129, 16383, 16384, 16385, 2097151, 2097152, 2097153} {
		name := strings.Repeat("x", n)
		f, err := parseBytes(withHeader("{"+entry(name, "U8", "[7,1,300]", 0, 2100)+","+entry("last", "U8", "[0]", 0, 0)+"}", 2100))
		require.NoError(t, err)
		info, ok := f.Info(name)
		require.True(t, ok, "%d", n)
		require.Equal(t, []int64{7, 1, 300}, info.Shape)
	}
}

// TestManySmallTensors: a header whose table would be larger than its text if it were kept in Go structures.
func TestManySmallTensors(t *testing.T) {
	for _, dims := range []int{0, 1, MaxRank} {
		var b strings.Builder
		b.WriteByte('{')
		shape := "[" + strings.TrimSuffix(strings.Repeat("0,", dims), ",") + "]"
		size := int64(0)
		if dims == 0 {
			size = 1
		}
		const n = 100_000
		for i := range n {
			if i == n/2 {
				b.WriteString(`"__metadata__":{` + numbered(MaxMetadata) + `},`)
			}
			fmt.Fprintf(&b, `"%x":{"dtype":"U8","shape":%s,"data_offsets":[%d,%d]},`, i, shape, int64(i)*size, int64(i+1)*size)
		}
		file := withHeader(strings.TrimSuffix(b.String(), ",")+"}", int(n*size))
		before := allocated()
		f, err := parseBytes(file)
		used := allocated() - before
		require.NoError(t, err)
		require.LessOrEqual(t, used, uint64(len(file)+1<<20))
		t.Logf("%d dimensions: file %d bytes, allocated %d", dims, len(file), used)
		require.Equal(t, n, f.Len())
		require.Len(t, f.Metadata(), MaxMetadata)
		for _, i := range []int{0, 1, n/2 - 1, n / 2, n - 1} {
			info, ok := f.Info(fmt.Sprintf("%x", i))
			require.True(t, ok)
			require.Equal(t, make([]int64, dims), info.Shape)
			require.Equal(t, f.start+int64(i)*size, info.Offset)
		}
	}
}

// TestReadErrorIsNoFormatError keeps a broken disk apart from a broken file.
func TestReadErrorIsNoFormatError(t *testing.T) {
	boom := errors.New("boom")
	_, err := Parse(failing{boom}, 100)
	require.ErrorIs(t, err, boom)
	var fe *FormatError
	require.False(t, errors.As(err, &fe))
	_, err = Parse(bytes.NewReader(make([]byte, 4)), 100)
	require.ErrorContains(t, err, "ended at byte 4")
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

// allocated is the number of bytes allocated so far by the process.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
