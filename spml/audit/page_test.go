package audit

import (
	"bytes"
	"context"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/internal/testroot"
)

// drawn is an audit of drawn pictures by numbers that do not matter.
func drawn(t *testing.T) (*Evidence, *Table) {
	ds, err := shapes.New(3, 20, 5, 5)
	require.NoError(t, err)
	ds, err = ds.WithSinglePositives(1)
	require.NoError(t, err)
	e := &Evidence{Data: ds, Values: map[Source][]float32{}}
	for i := range ds.N() {
		e.Rows = append(e.Rows, i)
		e.Near = append(e.Near, []int{(i + 1) % ds.N(), (i + 2) % ds.N()})
	}
	for k, s := range Sources {
		for i := range ds.N() * ds.C() {
			e.Values[s] = append(e.Values[s], float32(i*31%97+k)/100)
		}
	}
	table, err := Rank(context.Background(), e, Options{Top: 60})
	require.NoError(t, err)
	return e, table
}

// TestPage opens the page in a browser without a window, decides there by button, key and filter, and reads what it would save.
func TestPage(t *testing.T) {
	browser := testroot.Browser(t)
	e, table := drawn(t)
	var b bytes.Buffer
	require.NoError(t, table.WritePage(&b, e.Data, PageOptions{Photos: 30, Repeat: "spml audit --run 'a <b>'"}))
	page := b.String()
	require.Less(t, len(page), 5<<20)
	require.Equal(t, 30, strings.Count(page, "<figure "))
	require.NotRegexp(t, `(?i)(src|href|url)\s*[=(]\s*["']?\s*(https?:)?//`, page, "the page asks nobody")
	require.Contains(t, page, "spml audit --run &#39;a &lt;b&gt;&#39;")
	require.Contains(t, page, "aria-label=\"Precision of the first k candidates\"")

	probe := `<script>
const errors = []; window.addEventListener("error", e => errors.push(e.message));
cards[0].querySelector(".yes").click();
cards[1].querySelector(".no").click();
cards[2].querySelector(".yes").click(); cards[2].querySelector(".yes").click(); // taken back
cards[3].focus(); cards[3].dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true }));
const focus = document.activeElement === cards[4];
document.getElementById("open").click();
const visible = cards.filter(c => !c.hidden).length, loaded = [...document.images].every(i => i.complete && i.naturalWidth > 0);
const o = document.createElement("pre"); o.id = "out";
o.textContent = JSON.stringify({ errors, focus, visible, loaded, requests: performance.getEntriesByType("resource").filter(r => !r.name.startsWith("data:")).length,
  count: document.getElementById("count").textContent, ground: getComputedStyle(document.body).backgroundColor }) + "\n" + csv();
document.body.append(o);
</script></body>`
	file := filepath.Join(t.TempDir(), "audit.html")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(page, "</body>", probe, 1)), 0o600))
	for scheme, ground := range map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(22, 22, 22)"} {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		args := []string{"--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + t.TempDir(), "--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom"}
		if scheme == "dark" {
			args = append(args, "--blink-settings=preferredColorScheme=0")
		}
		cmd := exec.CommandContext(ctx, browser, append(args, "file://"+file)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, stderr.String())
		require.NotContains(t, stderr.String(), "CONSOLE", "the page writes nothing to the console, errors least of all")
		m := regexp.MustCompile(`(?s)<pre id="out">(.*?)</pre>`).FindSubmatch(out)
		require.NotNil(t, m, "%s", out[:min(len(out), 2000)])
		state, saved, _ := strings.Cut(html.UnescapeString(string(m[1])), "\n")
		require.JSONEq(t, `{"errors":[],"focus":true,"visible":27,"loaded":true,"requests":0,"count":"2 accepted, 1 refused, 27 open","ground":"`+ground+`"}`, state, scheme)
		d, err := ParseDecisions("decisions.csv", []byte(saved))
		require.NoError(t, err)
		require.Equal(t, 27, d.Undecided)
		require.Len(t, d.All, 3)
		for i, x := range d.All {
			c := table.Candidates[[]int{0, 1, 3}[i]]
			require.Equal(t, Decision{c.Image, c.Label, i != 1, x.From}, x)
		}
	}
}
