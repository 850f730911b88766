package command

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/npy"
)

func newDataPixels() *cobra.Command {
	var (
		resize, colours, out string
		crc, asJSON          bool
		photos               photoFlags
	)
	cmd := &cobra.Command{
		Use:   "pixels FILE …",
		Short: "Decode pictures and say, or write, what the network would see",
		Long: `Decodes pictures (JPEG, PNG, GIF, BMP, TIFF, WebP; the content decides) into RGB with Pillow's colours, resizes them and prints their checksums.

  spml data pixels photo.jpg                                   format, size, CRC-32 of the RGB bytes
  spml data pixels photo.jpg --resize squash:448 --crc         only the checksum, as Python's zlib.crc32(im.tobytes())
  spml data pixels photo.jpg --resize clip:224                 short side 224, bicubic, centre crop
  spml data pixels photo.jpg --resize squash:448x224:bicubic   width x height and a filter
  spml data pixels photo.jpg --resize squash:448 --out x.npy   uint8 [height, width, 3]

Filters: bilinear and bicubic are Pillow's; torchvision-bilinear, torchvision-bicubic are those of torchvision's uint8 tensors, torchvision-float-bilinear
and torchvision-float-bicubic of its tensors by way of float32.`,
		Args: atLeast(1, "picture files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			geometry, err := parseResize(resize)
			if err != nil {
				return usageError{err}
			}
			o, err := photos.options()
			if err != nil {
				return err
			}
			o.Notices = &pixel.Notices{Func: func(s string) { plain.Fprintf(cmd.ErrOrStderr(), "spml: %s\n", s) }}
			switch colours {
			case "right":
			case "pillow":
				o.PillowGray16 = true
			default:
				return usageError{fmt.Errorf("--pixels %q: right or pillow", colours)}
			}
			if out != "" && len(args) > 1 {
				return usageError{fmt.Errorf("--out takes one picture, got %d", len(args))}
			}
			for _, path := range args {
				r, p, err := pixelsOf(path, o, geometry)
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				if out != "" {
					a, err := npy.New([]int64{int64(p.H), int64(p.W), 3}, p.Pix)
					if err == nil {
						err = npy.Write(out, a)
					}
					if err != nil {
						return err
					}
				}
				w := cmd.OutOrStdout()
				switch {
				case asJSON:
					err = json.NewEncoder(w).Encode(r)
				case crc && len(args) == 1:
					_, err = fmt.Fprintln(w, r.CRC32)
				case crc:
					_, err = plain.Fprintf(w, "%d  %s\n", r.CRC32, path)
				default:
					turn := ""
					if r.Orientation > 1 {
						turn = fmt.Sprintf(", EXIF orientation %d (%s)", r.Orientation, map[bool]string{true: "applied", false: "ignored"}[o.ApplyEXIF])
					}
					_, err = plain.Fprintf(w, "%s: %s %d×%d%s; result %d×%d, CRC-32 %d, first pixel %v\n", path, r.Format, r.WH[0], r.WH[1], turn, p.W, p.H, r.CRC32, p.Pix[:3])
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&resize, "resize", "", "squash:N, squash:WxH, short:N (short side, nothing cut off) or clip:N (short side and centre crop), then :FILTER if another is wanted")
	f.StringVar(&colours, "pixels", "right", "16-bit grey: right (its high byte) or pillow (clipped to white, as Pillow does)")
	photos.add(f, pixel.EXIFApply, "")
	f.StringVar(&out, "out", "", "write the pixels to this .npy file")
	f.BoolVar(&crc, "crc", false, "print only the CRC-32")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// pixelsResult is what --json prints.
type pixelsResult struct {
	File        string       `json:"file"`
	Format      pixel.Format `json:"format"`
	WH          [2]int       `json:"wh"`
	Orientation int          `json:"exif_orientation"`
	ResultWH    [2]int       `json:"result_wh"`
	CRC32       uint32       `json:"crc32"`
	First       []int        `json:"first"`
}

func pixelsOf(path string, o pixel.Options, geometry func(w, h int) pixel.Geometry) (pixelsResult, *pixel.RGB, error) {
	r := pixelsResult{File: path}
	b, err := os.ReadFile(path)
	if err != nil {
		return r, nil, err
	}
	info, err := pixel.Header(b, o)
	if err != nil {
		return r, nil, err
	}
	p, err := pixel.Decode(b, o)
	if err != nil {
		return r, nil, err
	}
	if geometry != nil {
		if p, err = pixel.Transform(p, geometry(p.W, p.H)); err != nil {
			return r, nil, err
		}
	}
	r.Format, r.WH, r.Orientation = info.Format, [2]int{info.W, info.H}, pixel.Orientation(b)
	r.ResultWH, r.CRC32 = [2]int{p.W, p.H}, crc32.ChecksumIEEE(p.Pix)
	for _, v := range p.Pix[:min(9, len(p.Pix))] {
		r.First = append(r.First, int(v))
	}
	return r, p, nil
}

// parseResize reads --resize. An empty text is no resizing: nil.
func parseResize(text string) (func(w, h int) pixel.Geometry, error) {
	if text == "" || text == "none" {
		return nil, nil
	}
	bad := fmt.Errorf("--resize %q: squash:N, squash:WxH, short:N or clip:N, then :FILTER", text)
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return nil, bad
	}
	size := func(s string) (int, bool) { n, err := strconv.Atoi(s); return n, err == nil && n > 0 && n <= 1<<16 }
	filter := map[string]pixel.Filter{"squash": pixel.Bilinear, "short": pixel.Bicubic, "clip": pixel.Bicubic}[parts[0]]
	if len(parts) == 3 {
		f, err := pixel.ParseFilter(parts[2])
		if err != nil {
			return nil, err
		}
		filter = f
	}
	wide, high, both := strings.Cut(parts[1], "x")
	n, ok := size(wide)
	m := n
	if both {
		var okHigh bool
		m, okHigh = size(high)
		ok = ok && okHigh && parts[0] == "squash"
	}
	if !ok {
		return nil, bad
	}
	switch parts[0] {
	case "squash":
		return func(int, int) pixel.Geometry { return pixel.Squash(n, m, filter) }, nil
	case "clip":
		return func(w, h int) pixel.Geometry { return pixel.ShortSide(w, h, n, filter) }, nil
	case "short":
		return func(w, h int) pixel.Geometry {
			g := pixel.ShortSide(w, h, n, filter)
			return pixel.Squash(g.W, g.H, filter)
		}, nil
	}
	return nil, bad
}
