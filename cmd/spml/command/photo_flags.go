package command

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/gospml/gospml/data/pixel"
)

// photoFlags say how a command decodes photos.
type photoFlags struct {
	exif      string
	maxPixels int64
}

// add gives a command the flags. exif is the default of --exif; "" is what the text says.
func (p *photoFlags) add(f *pflag.FlagSet, exif, text string) {
	f.StringVar(&p.exif, "exif", exif, "orientation of photos: apply, or ignore as the papers' loaders do"+text)
	f.Int64Var(&p.maxPixels, "max-pixels", pixel.DefaultMaxPixels, "photos of more pixels are refused, from their header")
}

// check refuses other values than apply and ignore; "" is the default.
func (p *photoFlags) check() error {
	if _, err := pixel.ParseEXIF(p.exif); err != nil {
		return usageError{fmt.Errorf("--%w", err)}
	}
	if p.maxPixels < 1 {
		return usageError{fmt.Errorf("--max-pixels is %d, want 1 or more", p.maxPixels)}
	}
	return nil
}

func (p *photoFlags) options() (pixel.Options, error) {
	return pixel.Options{ApplyEXIF: p.exif == pixel.EXIFApply, MaxPixels: p.maxPixels}, p.check()
}
