package compare

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch/safetensors"
)

// Formats are the names that Write knows.
var Formats = []string{"md", "csv", "latex", "json"}

// Write prints a table as Markdown, CSV, LaTeX or JSON.
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
	}
	return &train.ConfigError{Msg: fmt.Sprintf("format %q is none of %s", format, strings.Join(Formats, ", "))}
}

func (t *Table) caption() string {
	if t.noTest() {
		return fmt.Sprintf("%s: %d classes; no test row has full labels, so test mAP is n/a; validation mAP of the best epoch in percent, mean ± sd over seeds", t.Data, t.Classes)
	}
	return fmt.Sprintf("%s: %d test images, %d classes; test mAP in percent, mean ± sd over seeds; difference of the best epochs with its 95 %% interval (paired bootstrap over images)", t.Data, t.Test, t.Classes)
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
	if t.noTest() {
		return t.byValidation(w)
	}
	first := t.Rows[0].Name
	fmt.Fprintf(w, "%s.\n\n| method | best epoch | last epoch | − %s | 95 %% interval | p | seeds | s/run |\n|---|---|---|---|---|---|---|---|\n", t.caption(), first)
	for _, r := range t.Rows {
		if r.LeftOut != "" {
			if _, err := fmt.Fprintf(w, "| %s | n/a | n/a | | | | 0 | |\n", r.Name); err != nil {
				return err
			}
			continue
		}
		diff, interval, p := "", "", ""
		if d := r.Difference; d != nil {
			diff, interval, p = fmt.Sprintf("%+.2f", d.Difference.Value), fmt.Sprintf("%+.2f … %+.2f", d.Difference.Low, d.Difference.High), fmt.Sprintf("%.3f", d.P)
		}
		n := len(r.Seeds)
		if _, err := fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %d | %.1f |\n", r.Name, spread(r.BestMean, r.BestSD, n, " ± "), spread(r.LastMean, r.LastSD, n, " ± "), diff, interval, p, n, r.Seconds); err != nil {
			return err
		}
	}
	return t.leftOut(w, "\n%s is left out: %s\n")
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
	_ = c.Write([]string{"data", "method", "seeds", "best_mean", "best_sd", "last_mean", "last_sd", "difference", "low", "high", "p", "best_per_seed", "last_per_seed", "best_epochs", "seconds_per_run", "val_mean", "val_sd", "val_per_seed", "left_out"})
	for _, r := range t.Rows {
		if r.LeftOut != "" { // an empty cell says nothing; a 0 would be a score
			_ = c.Write(append(append([]string{t.Data, r.Name}, make([]string, 16)...), r.LeftOut))
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
		_ = c.Write(append(append(row, val...), ""))
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

func (t *Table) latex(w io.Writer) error {
	escape := strings.NewReplacer("_", `\_`, "&", `\&`, "%", `\%`, "#", `\#`, "±", `$\pm$`)
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
		if r.NoTest {
			fmt.Fprintf(w, "%s & $%s$ & n/a & -- & -- \\\\\n", escape.Replace(r.Name), r.validation(" \\pm "))
			continue
		}
		n := len(r.Seeds)
		fmt.Fprintf(w, "%s & $%s$ & $%s$ & %s & %s \\\\\n", escape.Replace(r.Name), spread(r.BestMean, r.BestSD, n, " \\pm "), spread(r.LastMean, r.LastSD, n, " \\pm "), diff, p)
	}
	if _, err := io.WriteString(w, "\\hline\n\\end{tabular}\n\\end{table}\n"); err != nil {
		return err
	}
	return t.leftOut(w, "%% %s is left out: %s\n")
}

func fileHash(path string) (string, error) { return safetensors.Hash(path) }
