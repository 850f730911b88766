package audit

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"image"
	"image/jpeg"
	"io"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/chart"
)

//go:embed page.html
var pageText string

var pageHTML = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent": func(x float64) string { return fmt.Sprintf("%.1f", 100*x) },
	"number":  func(x float64) string { return fmt.Sprintf("%.3f", x) },
	"add":     func(a, b int) int { return a + b },
	"charts":  func() template.CSS { return chart.Style },
}).Parse(pageText))

// Long sides of the pictures in the page, in pixels.
const (
	photoSide     = 200
	neighbourSide = 64
	nearShown     = 4 // neighbours that are shown
)

// PageOptions of WritePage.
type PageOptions struct {
	Title  string
	Photos int           // candidates that are shown; 0: 200
	Repeat string        // the command that made it
	Pixels pixel.Options // how photos are decoded
}

type card struct {
	Candidate
	Carries []string // labels that the photo carries
	Photo   template.URL
	Bad     string
	Near    []nearPhoto
}

type nearPhoto struct {
	Name  string
	Carry bool
	Photo template.URL
}

// WritePage writes one HTML file to look through, without any reference to the network: photo, label, scores,
// neighbours, buttons to accept and refuse. The browser keeps decisions until they are saved as a CSV file for
// [ReadDecisions]. Without photos (a table of features) the cards have none.
func (t *Table) WritePage(w io.Writer, ds *data.Dataset, o PageOptions) error {
	if o.Photos == 0 {
		o.Photos = 200
	}
	if o.Title == "" {
		o.Title = "Labels of " + t.Name + " that are probably missing"
	}
	shown := max(0, min(o.Photos, len(t.Candidates)))
	head := struct {
		*Table
		PageOptions
		Shown, All int
		Curve      template.HTML
		Classes    []string
	}{t, o, shown, len(t.Candidates), t.curve(), nil}
	seen := map[string]bool{}
	for _, x := range t.Candidates[:shown] {
		if !seen[x.Label] {
			seen[x.Label] = true
			head.Classes = append(head.Classes, x.Label)
		}
	}
	if err := pageHTML.ExecuteTemplate(w, "head", head); err != nil {
		return err
	}
	src, _ := ds.Source.(data.RawSource)
	rows := map[string]int{}
	for i, n := range ds.Images {
		rows[n] = i
	}
	matrix := ds.Observed
	if t.Of == Full {
		matrix = ds.Labels
	}
	small := map[int]template.URL{} // neighbours come again and again
	for _, x := range t.Candidates[:shown] {
		c := card{Candidate: x}
		for k, name := range ds.Classes {
			if matrix[x.Row*ds.C()+k] == 1 {
				c.Carries = append(c.Carries, name)
			}
		}
		if src != nil {
			var err error
			if c.Photo, err = thumbnail(src, x.Row, photoSide, o.Pixels); err != nil {
				c.Bad = err.Error()
			}
			for i, n := range x.Neighbours[:min(nearShown, len(x.Neighbours))] {
				row := rows[n]
				if _, ok := small[row]; !ok {
					if small[row], err = thumbnail(src, row, neighbourSide, o.Pixels); err != nil {
						continue
					}
				}
				c.Near = append(c.Near, nearPhoto{n, x.Carry[i], small[row]})
			}
		}
		if err := pageHTML.ExecuteTemplate(w, "card", c); err != nil {
			return err
		}
	}
	return pageHTML.ExecuteTemplate(w, "foot", nil)
}

// thumbnail is a row's photo as a data URL.
func thumbnail(src data.RawSource, row, side int, o pixel.Options) (template.URL, error) {
	b, err := src.ReadFile(row, nil)
	if err != nil {
		return "", err
	}
	rgb, err := pixel.Decode(b, o)
	if err != nil {
		return "", err
	}
	scale := min(1, float64(side)/float64(max(rgb.W, rgb.H)))
	small, err := pixel.Resize(rgb, max(1, int(float64(rgb.W)*scale)), max(1, int(float64(rgb.H)*scale)), pixel.Bilinear)
	if err != nil {
		return "", err
	}
	m := image.NewRGBA(image.Rect(0, 0, small.W, small.H))
	for i := range small.W * small.H {
		copy(m.Pix[4*i:], small.Pix[3*i:3*i+3])
		m.Pix[4*i+3] = 255
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, m, &jpeg.Options{Quality: 78}); err != nil {
		return "", err
	}
	if out.Len() == 0 {
		return "", errors.New("empty picture")
	}
	return template.URL("data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(out.Bytes())), nil
}

// curve draws the measured precision over k, logarithmic; nothing where it was not measured.
func (t *Table) curve() template.HTML {
	if len(t.Precision) == 0 || len(t.Precision[0].At) < 2 {
		return ""
	}
	p := chart.Plot{Title: "Precision of the first k candidates", X: "first k candidates", Y: "%", LogX: true}
	p.YRange = [2]float64{0, 100}
	add := func(name string, dash int, of func(i int) float64, at []int) {
		s := chart.Series{Name: name, Colour: len(p.Series) + 1, Dash: dash, Bare: dash > 0}
		for i, k := range at {
			s.X, s.Y = append(s.X, float64(k)), append(s.Y, 100*of(i))
		}
		p.Series = append(p.Series, s)
	}
	for _, by := range t.Precision {
		add(by.By, 0, func(i int) float64 { return by.Of[i] }, by.At)
	}
	first := t.Precision[0]
	add("chance", 1, func(int) float64 { return first.Chance }, []int{first.At[0], first.At[len(first.At)-1]})
	return template.HTML(p.Lines())
}
