package npy

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/stretchr/testify/require"
)

// file builds a version 1.0 file from a header's text and n bytes of data.
func file(header string, n int) []byte {
	b := append([]byte(magic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	b = append(b, header...)
	return append(b, make([]byte, n)...)
}

func dict(descr, order, shape string) string {
	return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n"
}

func decode(b []byte) (*Array, error) { return Decode(bytes.NewReader(b), int64(len(b))) }

func TestHeaderForms(t *testing.T) {
	for text, shape := range map[string][]int64{
		dict("'<f4'", "False", "(2, 3)"):                                     {2, 3},
		`{"shape":(6,),"fortran_order":True,"descr":"<f4"}`:                  {6},
		"  {'descr' : '=f4' ,\n'shape': ( 2 , 3 , ), 'fortran_order':False}": {2, 3},
		dict("'<f4'", "False", "(6L, 1L)"):                                   {6, 1},
	} {
		a, err := decode(file(text, 24))
		require.NoError(t, err, text)
		require.Equal(t, shape, a.Shape)
		require.Equal(t, "<f4", a.Dtype)
	}
}

// TestAbuse: headers that break the rules, each refused with a reason that says which, none with memory.
func TestAbuse(t *testing.T) {
	good := dict("'<f4'", "False", "(2,)")
	_, err := decode(file(good, 8))
	require.NoError(t, err)
	with := func(from, to string) []byte { return file(strings.Replace(good, from, to, 1), 8) }
	version := func(major, minor byte) []byte {
		b := file(good, 8)
		b[6], b[7] = major, minor
		return b
	}
	long := append([]byte(magic), 2, 0, 0xff, 0xff, 0xff, 0x7f)
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":                        {nil, "truncated"},
		"another format":               {[]byte("PK\x03\x04 and more"), "does not begin with"},
		"version 0":                    {version(0, 0), "version 0.0"},
		"version 4":                    {version(4, 0), "version 4.0"},
		"version 1.1":                  {version(1, 1), "version 1.1"},
		"header of 2 GB":               {long, "2147483647 bytes, at most 10000"},
		"header of 10,001 bytes":       {file(good+strings.Repeat(" ", 10001-len(good)), 8), "10001 bytes, at most 10000"},
		"forged shape of 1.6 TB":       {with("(2,)", "(400000286720,)"), "takes 1600001146880 bytes, only 8 follow the header"},
		"forged shape of 9 EB":         {with("(2,)", "(2305843009213693951,)"), "only 8 follow the header"},
		"shape overflows":              {with("(2,)", "(4611686018427387904, 4)"), "overflows 64 bits"},
		"shape wraps to the size":      {with("(2,)", "(4611686018427387906,)"), "overflows 64 bits"},
		"shape overflows with a zero":  {with("(2,)", "(4611686018427387904, 4, 0)"), "overflows 64 bits"},
		"shape beyond 64 bits":         {with("(2,)", "(18446744073709551618,)"), "not a number of at most 63 bits"},
		"negative dimension":           {with("(2,)", "(-2,)"), "whole number, not negative"},
		"two negative dimensions":      {with("(2,)", "(-2, -1)"), "whole number, not negative"},
		"fraction":                     {with("(2,)", "(2.0,)"), "',' or ')' is expected"},
		"leading zero":                 {with("(2,)", "(02,)"), "not a number"},
		"no tuple":                     {with("(2,)", "(2)"), "is not a tuple"},
		"a list":                       {with("(2,)", "[2]"), "'(' is expected"},
		"two commas":                   {with("(2,)", "(2,,)"), "whole number"},
		"no comma":                     {with("(2,)", "(2 1)"), "',' or ')' is expected"},
		"shape not closed":             {with("(2,), }\n", "(2,"), "whole number"},
		"65 dimensions":                {with("(2,)", "(2"+strings.Repeat(", 1", 64)+")"), "more than 64 dimensions"},
		"L in version 3":               {append(append([]byte(magic), 3, 0, 58, 0, 0, 0), append([]byte(strings.Replace(good, "(2,)", "(2L,)", 1)), make([]byte, 8)...)...), "',' or ')'"},
		"code in the shape":            {with("(2,)", "(__import__('os').system('x'),)"), "whole number"},
		"code as descr":                {with("'<f4'", "exec('x')"), "a string is expected"},
		"key twice":                    {with("'shape'", "'shape': (2,), 'shape'"), `key "shape" occurs twice`},
		"unknown key":                  {with("'shape'", "'x'"), `unknown key "x"`},
		"key missing":                  {with(", 'shape': (2,)", ""), "is missing"},
		"empty dict":                   {file("{}", 8), "is missing"},
		"not closed":                   {with("}\n", ""), "a string is expected"},
		"text behind":                  {with("}\n", "} + {}\n"), "behind the closing }"},
		"NUL behind":                   {with("}\n", "}\x00"), "behind the closing }"},
		"no dict":                      {file("[]", 8), "'{' is expected"},
		"order is a number":            {with("False", "0"), "expected True or False"},
		"escape in descr":              {with("'<f4'", `'\x3cf4'`), "without escapes"},
		"quotes do not match":          {with("'<f4'", `'<f4"`), "',' is expected"},
		"string does not end":          {file("{'descr", 8), "is expected"},
		"object":                       {with("<f4", "|O"), "pickled Python code"},
		"object with a size":           {with("<f4", "|O8"), "pickled Python code"},
		"object without order":         {with("<f4", "O"), "pickled Python code"},
		"structured":                   {with("'<f4'", "[('a', '<f4')]"), "structured dtypes"},
		"subarray":                     {with("'<f4'", "('<f4', (2,))"), "structured dtypes"},
		"complex":                      {with("<f4", "<c8"), "not supported"},
		"float of 3 bytes":             {with("<f4", "<f3"), "not supported"},
		"bool of 4 bytes":              {with("<f4", "<b4"), "not supported"},
		"size with a zero":             {with("<f4", "<f04"), "not supported"},
		"size with a sign":             {with("<f4", "<f+4"), "not supported"},
		"no order":                     {with("<f4", "f4"), "not supported"},
		"order missing":                {with("<f4", "|f4"), "not supported"},
		"empty descr":                  {with("<f4", ""), "not supported"},
		"strings without characters":   {with("'<f4'", "'<U0'"), "not supported"},
		"a trillion of empty strings":  {file(dict("'<U0'", "False", "(1000000000000,)"), 0), "not supported"},
		"strings of 4 G characters":    {with("'<f4'", "'<U4294967296'"), "not supported"},
		"strings of 64-bit characters": {with("'<f4'", "'<U4611686018427387905'"), "not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			before := allocated()
			_, err := decode(c.file)
			used := allocated() - before
			var fe *FormatError
			require.ErrorAs(t, err, &fe)
			require.ErrorContains(t, err, c.want)
			require.Less(t, len(err.Error()), 1000)
			require.LessOrEqual(t, used, uint64(len(c.file)+1<<20))
		})
	}
}

// TestNumpyHeaders compares with header bytes that numpy wrote.
func TestNumpyHeaders(t *testing.T) {
	var headers []struct {
		Dtype      string
		Shape      []int64
		Hex        string `json:"header_hex"`
		TotalBytes int    `json:"total_bytes"`
	}
	text, err := os.ReadFile(testroot.Testdata("npy", "headers.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &headers))
	require.Len(t, headers, 4)
	for _, h := range headers {
		d, err := parseDtype(h.Dtype)
		require.NoError(t, err)
		_, n, err := d.count(h.Shape)
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, Encode(&out, &Array{Dtype: h.Dtype, Shape: h.Shape, Data: make([]byte, n)}))
		require.Equal(t, h.Hex, hex.EncodeToString(out.Bytes()[:out.Len()-int(n)]))
		require.Equal(t, h.TotalBytes, out.Len())
	}
}

// allocated is the number of bytes allocated so far by the process.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
