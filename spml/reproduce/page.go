package reproduce

import (
	"fmt"
	"io"
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

` + "`spml reproduce ID --data PATH --as voc --weights FILE --run FOLDER`" + ` trains what a table of a paper holds by the paper's recipe, says first what that costs, goes on where it
was stopped, and prints our numbers beside the published ones with the difference. ` + "`--as`" + ` names the column and with it the recipe; on data that no paper has (` + "`--data shapes`" + `,
photos of yours) the same methods are compared and nothing published stands beside them. Published numbers are test mAP in percent. ` + "`--dry-run`" + ` says only what it would
cost. Methods that learn from pseudo-labels want ` + "`--clip MODEL`" + ` (` + "`builtin`" + ` for drawn pictures) or ` + "`--pseudo-labels FILE`" + `; without, their rows say so and the others run.

`)
	var open []Item
	for _, it := range items {
		switch {
		case len(it.Rows) > 0:
			fmt.Fprintf(b, "## %s\n\n%s.\n\n    spml reproduce %s --data PATH --as voc --weights FILE --run FOLDER\n\n", ids(&it), it.Title, it.ID)
			fmt.Fprintln(b, "| method | VOC | COCO | NUS | CUB | |\n|---|---|---|---|---|---|")
			for _, r := range it.Rows {
				fmt.Fprintf(b, "| %s |", r.Name)
				for _, d := range DataSets {
					if p, ok := r.Published[d]; ok {
						fmt.Fprintf(b, " %.2f |", p)
					} else {
						b.WriteString(" – |")
					}
				}
				note := "`" + r.Method + "`"
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
		case len(it.Command) > 0:
			fmt.Fprintf(b, "## %s\n\n%s.\n\n    spml reproduce %s%s\n\nruns `spml %s`.\n\n", ids(&it), it.Title, it.ID, dataFlag(it), plain(it.Command))
			if it.First != "" {
				fmt.Fprintf(b, "First: `%s`.\n\n", it.First)
			}
		default:
			open = append(open, it)
		}
	}
	b.WriteString("## What needs more\n\n| | what | needs |\n|---|---|---|\n")
	for _, it := range open {
		needs := it.Needs
		if it.Published != "" {
			needs += " (published: " + it.Published + ")"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", it.ID, it.Title, needs)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// ids are the names of an item.
func ids(it *Item) string { return strings.Join(append([]string{it.ID}, it.Also...), ", ") }

// plain is a command with words in place of variables.
func plain(command []string) string {
	return strings.NewReplacer("$DATA", "PATH", "$RUN2", "RUN2", "$RUN", "RUN", "$PHOTO", "PHOTO", "$CLIP", "MODEL").Replace(strings.Join(command, " "))
}

// dataFlag are the flags that fill in a command's variables.
func dataFlag(it Item) string {
	text, out := strings.Join(it.Command, " "), ""
	for _, x := range [][2]string{{"$DATA", "--data PATH"}, {"$CLIP", "--clip MODEL"}, {"$PHOTO", "--photo PHOTO"}, {"$RUN2", "--from RUN,RUN2"}, {"$RUN", "--from RUN"}} {
		if strings.Contains(text, x[0]) && !(x[0] == "$RUN" && strings.Contains(out, "--from")) {
			out += " " + x[1]
		}
	}
	return out
}
