package pixel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPhoneFormats: what a phone or a browser saves and we do not read is named, with what to do. The boxes are as iOS,
// libheif and libavif write them.
func TestPhoneFormats(t *testing.T) {
	d, err := NewDecoder(Options{})
	require.NoError(t, err)
	defer d.Close()
	for box, want := range map[string]string{
		"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic":                     "it looks like HEIC (iPhone)",
		"\x00\x00\x00\x24ftypheic\x00\x00\x00\x00mif1MiHEMiPrmiafMiHBheic":     "it looks like HEIC (iPhone)",
		"\x00\x00\x00\x1cftypheix\x00\x00\x00\x00mif1heixmiaf":                 "it looks like HEIC (iPhone)",
		"\x00\x00\x00\x18ftypmif1\x00\x00\x00\x00mif1heic":                     "it looks like HEIC (iPhone)",
		"\x00\x00\x00\x1cftypmif1\x00\x00\x00\x00mif1avifmiaf":                 "it looks like AVIF",
		"\x00\x00\x00\x20ftypavif\x00\x00\x00\x00avifmif1miafMA1A":             "it looks like AVIF",
		"\x00\x00\x00\x2cftypavis\x00\x00\x00\x00avifavismsf1iso8mif1miafMA1B": "it looks like AVIF",
		"\xff\xff\xff\xffftypmif1\x00\x00\x00\x00mi":                           "it looks like HEIC (iPhone)",
		"\x00\x00\x00\x00ftypmif1":                                             "it looks like HEIC (iPhone)",
		"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom":                     "which is none of JPEG",
		"\x00\x00\x00\x18ftyphe":                                               "which is none of JPEG",
	} {
		for cut := range 3 {
			b := append([]byte(box), make([]byte, 100*cut)...)
			_, err := Header(b, Options{})
			require.ErrorContains(t, err, want, "%q", box)
			require.ErrorIs(t, err, ErrUnknownFormat)
			require.ErrorIs(t, err, ErrPicture)
			_, err = d.Decode(b)
			require.ErrorContains(t, err, want, "%q", box)
			if want[:2] == "it" {
				require.ErrorContains(t, err, "convert it to JPEG, for instance with ")
			}
		}
	}
}
