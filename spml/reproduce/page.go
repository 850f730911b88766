package reproduce

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gospml/gospml/spml/loss"
)

// needsFile says whether a row's method wants pseudo-labels.
func needsFile(method string) bool {
	id, _, _ := strings.Cut(method, ":")
	e, err := loss.Lookup(id)
	return err == nil && e.Needs&loss.PseudoLabels != 0
}

// WritePage writes docs/papers.md.
func WritePage(w io.Writer) error {
	items, err := Items()
	if err != nil {
		return err
	}
	b := &strings.Builder{}
	b.WriteString(`# Tables and figures of the papers

<!-- Made from spml/reproduce/papers.yaml: go generate ./spml/reproduce -->

` + "`spml reproduce ID --data PATH --as voc --weights FILE --run FOLDER`" + ` trains what a table of a paper holds by the paper's recipe, goes on where it
was stopped, and prints our numbers beside the published ones with the difference. ` + "`--as`" + ` names the column and with it the recipe; on data that no paper has (` + "`--data shapes`" + `,
photos of yours) the same methods are compared and nothing published stands beside them. A figure of runs trains them first and draws then. Published numbers are test mAP in percent. ` + "`--dry-run`" + ` prints the settings of
every row at once; with ` + "`--measure`" + ` it takes a few steps of each kind of row and says what all cost. Methods that learn from pseudo-labels want ` + "`--clip MODEL`" + ` (` + "`builtin`" + ` for drawn pictures) or ` + "`--pseudo-labels FILE`" + `; without, their rows say so and the others run.

`)
	for _, it := range items {
		fmt.Fprintf(b, "## %s\n\n%s.\n\n    spml reproduce %s%s\n\n", ids(&it), it.Title, it.ID, flagsOf(it))
		switch {
		case len(it.Rows) == 0:
			fmt.Fprintf(b, "runs `spml %s`.\n\n", Plain(it.Command))
			it.writeNumbers(b)
			continue
		case len(it.Command) > 0:
			fmt.Fprintf(b, "trains the rows, then draws `%s`; `--from` names runs that are there.\n\n", it.Writes)
		}
		fmt.Fprintln(b, "| method | VOC | COCO | NUS | CUB | |\n|---|---|---|---|---|---|")
		for _, r := range it.Rows {
			fmt.Fprintf(b, "| %s |", r.Name)
			for _, d := range DataSets {
				if p, ok := r.Published[d]; ok {
					fmt.Fprintf(b, " %s |", p)
				} else {
					b.WriteString(" – |")
				}
			}
			note := "`" + r.Method + "`"
			for _, own := range [][2]string{{"recipe", r.Recipe}, {"backbone", r.Backbone}, {"first stage", r.First}} {
				if own[1] != "" {
					note += ", " + own[0] + " `" + own[1] + "`"
				}
			}
			if len(r.Set) > 0 {
				note = "`" + r.Method + ": " + pointName(r.Set) + "`"
			}
			if r.Method == "" {
				note = "needs " + r.Needs
			} else if needsFile(r.Method) {
				note += ", with `--clip MODEL`"
			}
			fmt.Fprintf(b, " %s |\n", note)
		}
		b.WriteString("\n")
		it.writeNumbers(b)
	}
	places, err := Places()
	if err != nil {
		return err
	}
	b.WriteString("## Where the rest of the papers stands\n\nSettings that a recipe or a default cites are not repeated here: `spml recipe show NAME`, `spml loss show NAME`.\n\n| in the paper | here |\n|---|---|\n")
	for _, p := range places {
		fmt.Fprintf(b, "| %s | %s |\n", strings.ReplaceAll(strings.Join(p.Entries, "; "), "|", "·"), p.At)
	}
	_, err = io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// writeNumbers writes what the paper prints in a table that no training makes.
func (it *Item) writeNumbers(b *strings.Builder) {
	if len(it.Numbers) == 0 {
		return
	}
	var columns []string
	for _, row := range it.Numbers {
		for c := range row {
			if !slices.Contains(columns, c) {
				columns = append(columns, c)
			}
		}
	}
	order := func(c string) int { return slices.Index(DataSets, c) }
	slices.SortFunc(columns, func(a, b string) int { return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a, b)) })
	head := "| published |"
	for _, c := range columns {
		if slices.Contains(DataSets, c) {
			c = strings.ToUpper(c)
		}
		head += " " + c + " |"
	}
	fmt.Fprintf(b, "%s\n|---|%s\n", head, strings.Repeat("---|", len(columns)))
	for _, name := range slices.Sorted(maps.Keys(it.Numbers)) {
		fmt.Fprintf(b, "| %s |", strings.ReplaceAll(name, "|", "·"))
		for _, c := range columns {
			v := it.Numbers[name][c]
			if v == "" {
				v = "–"
			}
			fmt.Fprintf(b, " %s |", v)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// ids are the names of an item.
func ids(it *Item) string { return strings.Join(append([]string{it.ID}, it.Also...), ", ") }

// words are what stands for the variables of a command on the page, and the flag that gives each.
var words = []struct{ variable, word, flag string }{
	{"$AS", "voc", "--as voc"}, {"$DATA", "PATH", "--data PATH"}, {"$CLIP", "MODEL", "--clip MODEL"}, {"$PHOTOS", "PHOTO", ""}, {"$PHOTO", "PHOTO", "--photo PHOTO"},
	{"$RUN2", "RUN2", ""}, {"$RUN", "RUN", ""}, {"$FOLDER", "FOLDER", ""}, {"$OUT/", "", ""},
}

// Plain is a command with words in place of variables.
func Plain(command []string) string {
	var pairs []string
	for _, w := range words {
		pairs = append(pairs, w.variable, w.word)
	}
	return strings.NewReplacer(pairs...).Replace(strings.Join(command, " "))
}

// flagsOf are the flags that an item wants.
func flagsOf(it Item) (out string) {
	if len(it.Rows) > 0 {
		return " --data PATH --as voc --weights FILE --run FOLDER"
	}
	for _, v := range it.Variables() {
		for _, w := range words {
			if w.variable == v && w.flag != "" {
				out += " " + w.flag
			}
		}
	}
	return out
}
