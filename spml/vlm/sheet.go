package vlm

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"image"
	"image/jpeg"
	"io"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/atomicfile"
)

const (
	sheetPhotos = 60  // by default
	thumbnail   = 220 // pixels of a thumbnail's long side
)

var errEnough = errors.New("enough")

// card is a photo of the sheet.
type card struct {
	Evidence
	W, H  int // of the photo
	Photo template.URL
	Boxes []box
}

type box struct {
	X, Y, W, H int
	Class      string
}

// sheet writes the first photos with their labels as one HTML file, which needs no other.
func (l *Labeller) sheet(ds *data.Dataset, src data.RawSource, all []part, o Outputs) error {
	most := o.Photos
	if most <= 0 {
		most = sheetPhotos
	}
	return atomicfile.WriteFile(o.Sheet, 0o664, func(w io.Writer) error {
		head := struct {
			Name         string
			Shown, Total int
			Settings
		}{ds.Name, min(most, ds.N()), ds.N(), l.settings}
		if err := sheetHTML.ExecuteTemplate(w, "head", head); err != nil {
			return err
		}
		done := 0
		err := l.frames(ds, all, func(_ int, _, lines []byte) error {
			return decodeLines(lines, func(e Evidence) error {
				if done == most {
					return errEnough
				}
				done++
				c := card{Evidence: e}
				if e.Error == "" {
					if err := c.draw(src, l.settings.pixels()); err != nil {
						return err
					}
				}
				return sheetHTML.ExecuteTemplate(w, "card", c)
			})
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
		return sheetHTML.ExecuteTemplate(w, "foot", nil)
	})
}

// draw puts in the thumbnail and the tiles that the positives come from.
func (c *card) draw(src data.RawSource, o pixel.Options) error {
	b, err := src.ReadFile(c.Row, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Image, err)
	}
	rgb, err := pixel.Decode(b, o)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Image, err)
	}
	c.W, c.H = rgb.W, rgb.H
	scale := min(1, thumbnail/float64(max(rgb.W, rgb.H)))
	small, err := pixel.Resize(rgb, max(1, int(float64(rgb.W)*scale)), max(1, int(float64(rgb.H)*scale)), pixel.Bilinear)
	if err != nil {
		return err
	}
	m := image.NewRGBA(image.Rect(0, 0, small.W, small.H))
	for i := range small.W * small.H {
		copy(m.Pix[4*i:], small.Pix[3*i:3*i+3])
		m.Pix[4*i+3] = 255
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, m, &jpeg.Options{Quality: 80}); err != nil {
		return err
	}
	c.Photo = template.URL("data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(out.Bytes()))
	for _, s := range c.Positives {
		if s.Box != nil {
			c.Boxes = append(c.Boxes, box{s.Box[0], s.Box[1], s.Box[2] - s.Box[0], s.Box[3] - s.Box[1], s.Class})
		}
	}
	return nil
}

var sheetHTML = template.Must(template.New("sheet").Parse(`{{define "head"}}<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Pseudo-labels of {{.Name}}</title>
<style>
:root{color-scheme:light dark;--fg:#222;--bg:#fff;--line:#ccc;--muted:#5b5b5b;--yes:#064;--bad:#a00;--box:#0a6}
@media(prefers-color-scheme:dark){:root{--fg:#e8e8e8;--bg:#161616;--line:#444;--muted:#a3a3a3;--yes:#6fd3a8;--bad:#ff8a80;--box:#2fd693}}
body{font:14px/1.4 system-ui,sans-serif;margin:1.5rem;color:var(--fg);background:var(--bg)}
main{display:grid;grid-template-columns:repeat(auto-fill,minmax(240px,1fr));gap:1.2rem}
figure{margin:0;border:1px solid var(--line);border-radius:6px;padding:10px}
.photo{position:relative;display:inline-block}.photo img{display:block}.photo svg{position:absolute;inset:0;width:100%;height:100%}
rect{fill:none;stroke:var(--box);vector-effect:non-scaling-stroke;stroke-width:2}
ul{list-style:none;margin:.5rem 0 0;padding:0}.name{overflow-wrap:anywhere;color:var(--muted);font-size:12px}
.yes{color:var(--yes)}.seen{font-weight:600}.no{color:var(--muted);text-decoration:line-through}.bad{color:var(--bad)}
</style>
<h1>Pseudo-labels of {{.Name}}</h1>
<p>{{.Method}}{{with .Form}}, form {{.}}{{end}}: τ = {{.Tau}}, θ = {{.Theta}}, δ = {{.Delta}}. The first {{.Shown}} of {{.Total}} photos. Bold: observed. Green: accepted, with its score.
Struck out: the best classes that were refused. Frames: the tile in which an accepted class is most similar.</p>
<main>
{{end}}{{define "card"}}<figure>{{if .Photo}}<div class="photo"><img src="{{.Photo}}" alt="{{.Image}}">{{if .Boxes}}<svg viewBox="0 0 {{.W}} {{.H}}" preserveAspectRatio="none">{{range .Boxes}}<rect x="{{.X}}" y="{{.Y}}" width="{{.W}}" height="{{.H}}"><title>{{.Class}}</title></rect>{{end}}</svg>{{end}}</div>{{end}}
<figcaption><div class="name">{{.Image}}</div>{{with .Error}}<div class="bad">{{.}}</div>{{end}}<ul>
{{range .Positives}}<li class="yes{{if .Observed}} seen{{end}}">{{.Class}} {{printf "%.3f" .Score}}</li>
{{end}}{{range .Refused}}<li class="no">{{.Class}} {{printf "%.3f" .Score}}</li>
{{end}}</ul></figcaption></figure>
{{end}}{{define "foot"}}</main></html>
{{end}}`))
