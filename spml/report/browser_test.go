package report

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/shapes/shapestest"
	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
)

// browser finds a Chromium; .ci/run installs one.
func browser(t *testing.T) string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium to open the report in; on Debian: apt-get install chromium")
	return ""
}

// tab opens headless Chromium and keeps what a page logs and asks the network for.
type tab struct {
	ctx      context.Context
	mu       sync.Mutex
	logged   []string
	requests []string
}

func newTab(t *testing.T) *tab {
	profile := t.TempDir()
	t.Cleanup(func() { // processes of Chromium's write there for a while after it has ended
		require.Eventually(t, func() bool { return os.RemoveAll(profile) == nil }, time.Minute, 50*time.Millisecond)
	})
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser(t)), chromedp.NoSandbox, chromedp.UserDataDir(profile))
	alloc, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), opts...) // the test ends its context before the cleanups
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		require.NoError(t, chromedp.Cancel(ctx)) // asks it to close and waits
		cancel()
	})
	b := &tab{ctx: ctx}
	chromedp.ListenTarget(ctx, func(e any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := e.(type) {
		case *runtime.EventConsoleAPICalled:
			b.logged = append(b.logged, string(e.Type))
		case *runtime.EventExceptionThrown:
			b.logged = append(b.logged, e.ExceptionDetails.Error())
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, "data:") {
				b.requests = append(b.requests, e.Request.URL)
			}
		}
	})
	require.NoError(t, chromedp.Run(ctx, network.Enable(), runtime.Enable()))
	return b
}

// open shows a file at a size, light or dark; the page must say nothing and ask for nothing but itself.
func (b *tab) open(t *testing.T, file string, width int64, scheme string) {
	b.mu.Lock()
	b.logged, b.requests = nil, nil
	b.mu.Unlock()
	require.NoError(t, chromedp.Run(b.ctx,
		emulation.SetDeviceMetricsOverride(width, 900, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.Navigate("file://"+file), chromedp.WaitReady("main")))
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.logged, "console")
	require.Equal(t, []string{"file://" + file}, b.requests)
}

// eval runs an expression in the page.
func eval[T any](t *testing.T, b *tab, expr string) (v T) {
	require.NoError(t, chromedp.Run(b.ctx, chromedp.Evaluate(expr, &v)), expr)
	return v
}

// screenshot checks that a picture of the page comes out; GOSPML_SCREENSHOTS=DIR keeps it.
func (b *tab) screenshot(t *testing.T, name string) {
	var png []byte
	require.NoError(t, chromedp.Run(b.ctx, chromedp.FullScreenshot(&png, 100)))
	require.Greater(t, len(png), 20<<10, "a page of pictures and text")
	if dir := os.Getenv("GOSPML_SCREENSHOTS"); dir != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
	}
}

// write keeps a report as a file.
func write(t *testing.T, paths []string, o Options) string {
	html, err := Make(t.Context(), paths, o)
	require.NoError(t, err)
	require.Less(t, len(html), MaxBytes)
	file := filepath.Join(t.TempDir(), "report.html")
	require.NoError(t, os.WriteFile(file, html, 0o644))
	return file
}

// look checks what a report shows at two widths, light and dark.
func (b *tab) look(t *testing.T, file, name string, sections []string) {
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{400, 1600} {
			b.open(t, file, width, scheme)
			for _, s := range sections {
				require.True(t, eval[bool](t, b, `(e => !!e && e.getBoundingClientRect().height > 40)(document.getElementById("`+s+`"))`), "%s, %s at %d", s, scheme, width)
			}
			require.Equal(t, map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}[scheme], eval[string](t, b, `getComputedStyle(document.documentElement).backgroundColor`))
			require.LessOrEqual(t, eval[int](t, b, `document.documentElement.scrollWidth`), int(width), "nothing sticks out at %d", width)
			require.Zero(t, eval[int](t, b, `[...document.querySelectorAll("svg.chart, input, img")].filter(e => !(e.getAttribute("aria-label") || e.closest("label") || e.hasAttribute("alt"))).length`), "everything has a name")
			require.Zero(t, eval[int](t, b, `[...document.images].filter(i => !i.src.startsWith("data:image/jpeg;base64,")).length`))
			b.screenshot(t, name+"-"+scheme+"-"+map[int64]string{400: "narrow", 1600: "wide"}[width])
		}
	}
}

// trained makes small runs on drawn pictures.
func trained(t *testing.T, dir string, methods ...string) []string {
	var dirs []string
	for _, m := range methods {
		c := config.Config{
			Data:     config.Data{Path: shapestest.Folder(t), ImageSize: 64},
			Method:   config.Method{ID: m},
			Model:    config.Model{Backbone: "small_cnn"},
			Optim:    config.Optim{BatchSize: 16, LR: 3e-3},
			Schedule: config.Schedule{Epochs: 3},
			Run:      config.Run{Seed: 3, Dir: filepath.Join(dir, m), SaveEvery: config.SaveEvery{Off: true}},
		}
		_, err := train.Run(t.Context(), c, train.RunOptions{})
		require.NoError(t, err)
		dirs = append(dirs, c.Run.Dir)
	}
	return dirs
}

func TestReportInBrowser(t *testing.T) {
	b := newTab(t)
	dirs := trained(t, t.TempDir(), "an", "plc")
	file := write(t, dirs[1:], Options{Photos: 2})
	b.look(t, file, "run", []string{"curves", "scores", "classes", "photos", "repeat", "environment"})
	require.Equal(t, 4, eval[int](t, b, `document.querySelectorAll("#photos .card").length`))
	require.Equal(t, 8, eval[int](t, b, `document.querySelectorAll("#photos img").length`), "each photo beside its map")
	require.Equal(t, 12, eval[int](t, b, `document.querySelectorAll("#classes li").length`))

	// The threshold gives what counting the test scores gives.
	rec, err := rundir.ReadRecord(dirs[1])
	require.NoError(t, err)
	sc, err := rundir.ReadTestScores(dirs[1])
	require.NoError(t, err)
	ds, err := rec.Config.Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	truth := ds.Gather(ds.Labels, sc.Rows)
	for _, percent := range []int{5, 30, 45} {
		tp, given, positives := 0.0, 0.0, 0.0
		for i, p := range sc.Values {
			positives += float64(truth[i])
			if float64(p) >= float64(percent)/100 {
				given++
				tp += float64(truth[i])
			}
		}
		move := `(e => { e.value = ` + itoa(percent) + `; e.dispatchEvent(new Event("input")); })(document.getElementById("threshold"))`
		require.NoError(t, chromedp.Run(b.ctx, chromedp.Evaluate(move, nil)))
		number := func(id string) float64 {
			return eval[float64](t, b, `parseFloat(document.getElementById("`+id+`").textContent) || 0`)
		}
		require.Equal(t, given, number("given"))
		if given > 0 {
			require.InDelta(t, tp/given, number("precision"), 6e-4)
		}
		require.InDelta(t, tp/positives, number("recall"), 6e-4)
		require.InDelta(t, 2*tp/(given+positives), number("f1"), 6e-4)
	}
	// Moving the epoch draws that epoch's scores.
	scores, err := rundir.ReadEpochScores(dirs[1])
	require.NoError(t, err)
	for epoch := 3; epoch >= 1; epoch-- {
		require.NoError(t, chromedp.Run(b.ctx, chromedp.Evaluate(`(e => { e.value = `+itoa(epoch)+`; e.dispatchEvent(new Event("input")); })(document.getElementById("epoch"))`, nil)))
		g := scores[epoch-1].Train.Hidden
		mean := math.Round(1e3*g.Probability/float64(g.Entries)) / 1e3
		text := eval[string](t, b, `document.querySelector("#ridges").textContent`)
		require.Contains(t, text, itoa(g.Entries)+", mean ")
		require.InDelta(t, mean, eval[float64](t, b, `runs[0].epochs[document.getElementById("epoch").value - 1].rows.find(r => r.name == "hidden positive").mean`), 1e-9)
	}

	// Two runs make a comparison.
	file = write(t, dirs, Options{Photos: 1})
	b.look(t, file, "comparison", []string{"table", "curves", "scores", "classes", "photos", "repeat", "environment"})
	require.Equal(t, 2, eval[int](t, b, `document.querySelectorAll("#table tbody tr").length`))
	d, err := compare.Diff(dirs[0], dirs[1], 0)
	require.NoError(t, err)
	text := eval[string](t, b, `document.querySelector("#table tbody tr:nth-child(2)").textContent`)
	require.Contains(t, text, signed(d.MAP.Difference.Value))
	require.Contains(t, text, signed(d.MAP.Difference.Low)+" … "+signed(d.MAP.Difference.High))
	require.NoError(t, chromedp.Run(b.ctx, chromedp.Evaluate(`(e => { e.value = 1; e.dispatchEvent(new Event("change")); })(document.getElementById("run"))`, nil)))
	require.Contains(t, eval[string](t, b, `document.querySelector("#ridges").textContent`), "hidden positive")
	require.Equal(t, "plc", eval[string](t, b, `document.querySelectorAll("#repeat figcaption")[1].textContent`))
	b.mu.Lock()
	require.Empty(t, b.logged)
	b.mu.Unlock()

	// The watch works: a page that logs and asks is noticed.
	asked := make(chan string, 8)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	defer srv.Close()
	bad := filepath.Join(t.TempDir(), "bad.html")
	require.NoError(t, os.WriteFile(bad, []byte(`<!doctype html><main>x</main><script>console.error("no");fetch("`+srv.URL+`/x").catch(() => {});</script>`), 0o644))
	require.NoError(t, chromedp.Run(b.ctx, chromedp.Navigate("file://"+bad), chromedp.WaitReady("main")))
	require.Equal(t, "/x", <-asked)
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.logged) > 0 && len(b.requests) > 1
	}, 30*time.Second, 20*time.Millisecond)
}

// A tuned comparison's page shows how settings were chosen, and numbers from elsewhere: what a person reads there is
// what the screen says.
func TestTunedInBrowser(t *testing.T) {
	b := newTab(t)
	dir := t.TempDir()
	v, err := compare.Methods([]string{"an", "em"})
	require.NoError(t, err)
	o := compare.Options{Variants: v, Seeds: []uint32{1200}, Dir: dir, Replicates: 20, Settings: map[string]any{
		"data": "shapes", "data_options": "train=64,val=16,test=16", "image_size": 16, "epochs": 1,
	}}
	table, err := compare.Tune(t.Context(), o, compare.Tuning{Seeds: []uint32{101, 102}, Grids: []compare.Grid{
		{Source: "none"}, {Source: "a <b>test</b>", Stages: [][]map[string]any{{{"params.alpha": 0.9}, {"lr": 1e-2}}}},
	}})
	require.NoError(t, err)
	low, high := 40.5, 41.5
	table.Lay([]compare.Number{
		{Method: "em", Metric: compare.TestMAP, Mean: 41, Low: &low, High: &high, Source: "a | b"},
		{Method: "unheard of", Metric: compare.TestMAP, Mean: 39, Source: "another program"},
	})
	var saved, screen bytes.Buffer
	require.NoError(t, table.Write(&saved, "json"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "table.json"), saved.Bytes(), 0o644))
	require.NoError(t, table.Write(&screen, "md"))

	b.look(t, write(t, []string{dir}, Options{Photos: -1}), "tuned", []string{"table", "part-0", "part-1"})
	for i, first := range []string{"Settings were chosen by validation mAP alone, mean over seeds 101 102, which no row " +
		"above has; test stayed hidden until every choice was made and was scored once. Search: ",
		"Numbers from elsewhere beside ours"} {
		part := `document.getElementById("part-` + itoa(i) + `")`
		text := eval[string](t, b, part+`.querySelector(".note").innerText`)
		require.Contains(t, text, first)
		require.Contains(t, screen.String(), "\n"+text+"\n")
		rows := eval[[][]string](t, b, `[...`+part+`.querySelectorAll("tr")].map(r => [...r.children].map(c => c.innerText))`)
		require.Len(t, rows, 3)
		for _, cells := range rows {
			for k, c := range cells {
				cells[k] = strings.ReplaceAll(c, "|", `\|`)
			}
			require.Contains(t, screen.String(), "\n| "+strings.Join(cells, " | ")+" |\n")
		}
	}
	for _, row := range table.Rows {
		require.Contains(t, eval[string](t, b, `document.getElementById("part-0").innerText`), row.Selection.Source)
	}
}
