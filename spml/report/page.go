package report

import (
	_ "embed"
	"html/template"
	"io"

	"github.com/gospml/gospml/internal/chart"
	"github.com/gospml/gospml/spml/compare"
)

// page is what the template reads.
type page struct {
	Title, Subtitle string
	Light, Dark     template.CSS
	Facts           []fact
	Notes           []string
	Table           []tableRow
	Measure         string // the table's first column
	Parts           []compare.Part
	Curves          []template.HTML
	Pseudo          []template.HTML
	Classes         []classRow
	ByClass         *classTable
	Runs            []embedded // for the script
	Scores          template.HTML
	LastEpoch       int // epochs that the slider has
	HasBins         bool
	Thresholds      template.HTML
	ThresholdAt     int // percent
	Photos          []Photo
	PhotosOf        [2]string // names of the models behind two bars
	Environment     []fact
	EnvironmentOf   string
	Commands        []command
}

type fact struct{ Name, Value, Note string }

type command struct{ Name, Line string }

type tableRow struct {
	Name, Mean, SD, Last, Difference, Interval, P, Seconds string
	Bar                                                    float64
	Clear                                                  bool // the interval does not hold 0
}

// embedded is a run for the page's script.
type embedded struct {
	Name      string     `json:"name"`
	Epochs    []epochRow `json:"epochs"`
	Classes   []class    `json:"classes"`
	Bins      *bins      `json:"bins,omitempty"`
	Threshold float64    `json:"threshold"`
}

const (
	light = template.CSS(chart.Light)
	dark  = template.CSS(chart.Dark)
)

//go:embed page.html
var pageText string

//go:embed page.css
var styleText string

//go:embed page.js
var scriptText string

var pageHTML = template.Must(template.New("").Funcs(template.FuncMap{
	"style":  func() template.CSS { return template.CSS(styleText + chart.Style) },
	"script": func() template.JS { return template.JS(scriptText) },
	"policy": func() string {
		return "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
	},
}).Parse(pageText))

// WritePhotos writes a page of photos with the bars of one or two models; notes say what is missing.
func WritePhotos(w io.Writer, title, subtitle string, models [2]string, photos []Photo, notes []string) error {
	return pageHTML.ExecuteTemplate(w, "page", &page{Title: title, Subtitle: subtitle, Light: light, Dark: dark, Photos: photos, PhotosOf: models, Notes: notes})
}
