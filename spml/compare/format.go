package compare

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gospml/gospml/internal/chart"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/torch/safetensors"
)

// Formats are the names that Write knows.
var Formats = []string{"md", "csv", "latex", "json", "svg"}

// Write prints a table as Markdown, CSV, LaTeX, JSON or a picture (Chart) in a file of its own.
func (t *Table) Write(w io.Writer, format string) error {
	switch format {
	case "md":
		return t.markdown(w)
	case "csv":
		return t.csv(w)
	case "latex":
		return t.latex(w)
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(t)
	case "svg":
		_, err := w.Write(chart.Standalone(t.Data, t.Chart()))
		return err
	}
	return &config.Error{Msg: fmt.Sprintf("format %q is none of %s", format, strings.Join(Formats, ", "))}
}

func (t *Table) caption() string {
	if t.noTest() {
		return fmt.Sprintf("%s: %d classes; test mAP is n/a: %s; validation mAP of the best epoch in percent, mean ± "+
			"sd over seeds", t.Data, t.Classes, t.whyNoTest())
	}
	return fmt.Sprintf("%s: %d test images, %d classes; test mAP in percent, mean ± sd over seeds; difference of the best epochs with its 95 %% interval (paired bootstrap over images)", t.Data, t.Test, t.Classes)
}

// whyNoTest says why there is no test mAP.
func (t *Table) whyNoTest() string {
	if t.Hidden {
		return "the runs leave the test part alone"
	}
	return "no test row has full labels"
}

func spread(mean, sd float64, seeds int, pm string) string {
	if seeds < 2 {
		return fmt.Sprintf("%.2f", mean)
	}
	return fmt.Sprintf("%.2f%s%.2f", mean, pm, sd)
}

// validation is a row's validation mAP, "n/a" where nothing was validated.
func (r *Row) validation(pm string) string {
	if len(r.Val) == 0 {
		return "n/a"
	}
	return spread(r.ValMean, r.ValSD, len(r.Val), pm)
}

// byValidation is markdown where there is no test mAP.
func (t *Table) byValidation(w io.Writer) error {
	fmt.Fprintf(w, "%s.\n\n| method | val mAP | test mAP | seeds | s/run |\n|---|---|---|---|---|\n", t.caption())
	for _, r := range t.Rows {
		seconds := ""
		if r.LeftOut == "" {
			seconds = fmt.Sprintf("%.1f", r.Seconds)
		}
		if _, err := fmt.Fprintf(w, "| %s | %s | n/a | %d | %s |\n", r.Name, r.validation(" ± "), len(r.Seeds), seconds); err != nil {
			return err
		}
	}
	return t.leftOut(w, "\n%s is left out: %s\n")
}

func (t *Table) markdown(w io.Writer) error {
	rows := t.byTest
	if t.noTest() {
		rows = t.byValidation
	}
	return cmp.Or(rows(w), t.markdownParts(w))
}

func (t *Table) byTest(w io.Writer) error {
	first, val, rule := t.Rows[0].Name, "", ""
	if t.ValFirst {
		val, rule = "val mAP | ", "---|"
	}
	fmt.Fprintf(w, "%s.\n\n| method | %sbest epoch | last epoch | − %s | 95 %% interval | p | seeds | s/run "+
		"|\n|---|%s---|---|---|---|---|---|---|\n", t.caption(), val, first, rule)
	top := t.highest()
	for i, r := range t.Rows {
		if val = ""; t.ValFirst {
			if val = r.validation(" ± "); i == top {
				val = "**" + val + "**"
			}
			val += " | "
		}
		if r.LeftOut != "" {
			if _, err := fmt.Fprintf(w, "| %s | %sn/a | n/a | | | | 0 | |\n", r.Name, val); err != nil {
				return err
			}
			continue
		}
		diff, interval, p := "", "", ""
		if d := r.Difference; d != nil {
			diff, interval, p = fmt.Sprintf("%+.2f", d.Difference.Value), fmt.Sprintf("%+.2f … %+.2f", d.Difference.Low, d.Difference.High), fmt.Sprintf("%.3f", d.P)
		}
		n := len(r.Seeds)
		if _, err := fmt.Fprintf(w, "| %s | %s%s | %s | %s | %s | %s | %d | %.1f |\n", r.Name, val, r.test(r.BestMean,
			r.BestSD, " ± "), r.test(r.LastMean, r.LastSD, " ± "), diff, interval, p, n, r.Seconds); err != nil {
			return err
		}
	}
	if t.ValFirst && top >= 0 {
		if _, err := fmt.Fprintf(w, "\nHighest validation mAP: %s. Choose by it: the test columns are for the report, "+
			"once.\n", t.Rows[top].Name); err != nil {
			return err
		}
	}
	return t.leftOut(w, "\n%s is left out: %s\n")
}

// highest is the place of the row with the highest validation mAP, the first of equals; -1 where nothing was validated.
func (t *Table) highest() int {
	top := -1
	for i, r := range t.Rows {
		if r.LeftOut == "" && len(r.Val) > 0 && (top < 0 || r.ValMean > t.Rows[top].ValMean) {
			top = i
		}
	}
	return top
}

// test is a test mAP of the row, "n/a" where it has none.
func (r *Row) test(mean, sd float64, pm string) string {
	if r.NoTest {
		return "n/a"
	}
	return spread(mean, sd, len(r.Seeds), pm)
}

// text are the chosen settings in a line.
func (x *Selection) text() string {
	if len(x.Chosen) == 0 {
		return "its own settings"
	}
	return settingsText(x.Chosen)
}

// cell keeps a text of others in one cell of a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ").Replace(text)
}

func (n *Number) ours(pm string) string {
	if n.Ours == nil {
		return "–"
	}
	return spread(*n.Ours, n.SD, n.Seeds, pm)
}

func (n *Number) interval() string {
	if n.Low == nil {
		return ""
	}
	return fmt.Sprintf("%.2f … %.2f", *n.Low, *n.High)
}

func (n *Number) difference() string {
	if n.Difference == nil {
		return ""
	}
	return fmt.Sprintf("%+.2f", *n.Difference)
}

// leftOut writes why rows were not trained.
func (t *Table) leftOut(w io.Writer, form string) error {
	for _, r := range t.Rows {
		if r.LeftOut == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, form, r.Name, r.LeftOut); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) csv(w io.Writer) error {
	c := csv.NewWriter(w)
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }
	head := []string{"data", "method", "seeds", "best_mean", "best_sd", "last_mean", "last_sd", "difference", "low",
		"high", "p", "best_per_seed", "last_per_seed", "best_epochs", "seconds_per_run", "val_mean", "val_sd",
		"val_per_seed", "left_out"}
	if t.Budget != nil {
		head = append(head, "chosen", "tried", "tuning_val_mean", "tuning_val_sd", "tuning_val_own", "tuning_seconds", "grid")
	}
	if len(t.Beside) > 0 {
		head = append(head, "metric", "elsewhere_mean", "elsewhere_low", "elsewhere_high", "elsewhere_source")
	}
	line := func(cells ...string) { _ = c.Write(append(cells, make([]string, len(head)-len(cells))...)) }
	line(head...)
	for _, r := range t.Rows {
		if r.LeftOut != "" { // an empty cell says nothing; a 0 would be a score
			line(append(append([]string{t.Data, r.Name}, make([]string, 16)...), r.LeftOut)...)
			continue
		}
		d := []string{"", "", "", ""}
		if x := r.Difference; x != nil {
			d = []string{f(x.Difference.Value), f(x.Difference.Low), f(x.Difference.High), f(x.P)}
		}
		test, val := []string{f(r.BestMean), f(r.BestSD), f(r.LastMean), f(r.LastSD)}, []string{"", "", ""}
		if r.NoTest {
			test = make([]string, 4)
		}
		if len(r.Val) > 0 {
			val = []string{f(r.ValMean), f(r.ValSD), join(r.Val, "%.4f")}
		}
		row := append(append(append([]string{t.Data, r.Name, join(r.Seeds, "%d")}, test...), d...),
			join(r.Best, "%.4f"), join(r.Last, "%.4f"), join(r.Epochs, "%d"), strconv.FormatFloat(r.Seconds, 'f', 2, 64))
		row = append(append(row, val...), "")
		if x := r.Selection; x != nil {
			row = append(row, settingsText(x.Chosen), strconv.Itoa(x.Tried), f(x.ValMean), f(x.ValSD), f(x.OwnVal),
				strconv.FormatFloat(x.Seconds, 'f', 2, 64), x.Source)
		}
		line(row...)
	}
	for _, n := range t.Beside {
		low, high := "", ""
		if n.Low != nil {
			low, high = f(*n.Low), f(*n.High)
		}
		row := append([]string{t.Data, n.Method}, make([]string, len(head)-7)...)
		line(append(row, n.Metric, f(n.Mean), low, high, n.Source)...)
	}
	c.Flush()
	return c.Error()
}

func join[T any](v []T, format string) string {
	s := make([]string, len(v))
	for i, x := range v {
		s[i] = fmt.Sprintf(format, x)
	}
	return strings.Join(s, " ")
}

// escape makes text fit for LaTeX.
var escape = strings.NewReplacer("_", `\_`, "&", `\&`, "%", `\%`, "#", `\#`, "±", `$\pm$`)

func (t *Table) latex(w io.Writer) error {
	columns := "best epoch & last epoch"
	if t.noTest() {
		columns = "val mAP & test mAP"
	}
	fmt.Fprintf(w, "\\begin{table}\n\\centering\n\\caption{%s.}\n\\begin{tabular}{lrrrr}\n\\hline\nmethod & %s & difference & $p$ \\\\\n\\hline\n", escape.Replace(t.caption()), columns)
	for _, r := range t.Rows {
		if r.LeftOut != "" {
			fmt.Fprintf(w, "%s & n/a & n/a & -- & -- \\\\\n", escape.Replace(r.Name))
			continue
		}
		diff, p := "--", "--"
		if d := r.Difference; d != nil {
			diff, p = fmt.Sprintf("$%+.2f\\,[%+.2f, %+.2f]$", d.Difference.Value, d.Difference.Low, d.Difference.High), fmt.Sprintf("%.3f", d.P)
		}
		if t.noTest() {
			fmt.Fprintf(w, "%s & $%s$ & n/a & -- & -- \\\\\n", escape.Replace(r.Name), r.validation(" \\pm "))
			continue
		}
		fmt.Fprintf(w, "%s & $%s$ & $%s$ & %s & %s \\\\\n", escape.Replace(r.Name), r.test(r.BestMean, r.BestSD, " \\pm "),
			r.test(r.LastMean, r.LastSD, " \\pm "), diff, p)
	}
	if _, err := io.WriteString(w, "\\hline\n\\end{tabular}\n\\end{table}\n"); err != nil {
		return err
	}
	if b := t.Budget; b != nil {
		fmt.Fprintf(w, "\\begin{table}\n\\centering\n\\caption{Settings chosen by validation mAP over seeds %s: %d "+
			"settings, %d runs.}\n\\begin{tabular}{llrrr}\n\\hline\nmethod & chosen & val mAP & own & tried \\\\\n\\hline\n",
			join(b.Seeds, "%d"), b.Settings, b.Runs)
		for _, r := range t.Rows {
			if x := r.Selection; x != nil {
				fmt.Fprintf(w, "%s & %s & $%s$ & %.2f & %d \\\\\n", escape.Replace(r.Name), escape.Replace(x.text()),
					spread(x.ValMean, x.ValSD, len(b.Seeds), " \\pm "), x.OwnVal, x.Tried)
			}
		}
		fmt.Fprint(w, "\\hline\n\\end{tabular}\n\\end{table}\n")
	}
	if len(t.Beside) > 0 {
		fmt.Fprint(w, "\\begin{table}\n\\centering\n\\caption{Numbers from elsewhere beside "+
			"ours.}\n\\begin{tabular}{llrrll}\n\\hline\nmethod & metric & ours & elsewhere & interval & source \\\\\n\\hline\n")
		for _, n := range t.Beside {
			fmt.Fprintf(w, "%s & %s & $%s$ & %.2f & %s & %s \\\\\n", escape.Replace(n.Method), escape.Replace(n.Metric),
				n.ours(" \\pm "), n.Mean, n.interval(), escape.Replace(n.Source))
		}
		fmt.Fprint(w, "\\hline\n\\end{tabular}\n\\end{table}\n")
	}
	return t.leftOut(w, "%% %s is left out: %s\n")
}

func fileHash(path string) (string, error) { return safetensors.Hash(path) }
