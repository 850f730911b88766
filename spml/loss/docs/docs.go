// Package docs writes a page about every registered loss, docs/methods.md of this module: `spml loss docs FOLDER`.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/plot"
)

// Write makes methods.md and methods/*.svg in a folder.
func Write(folder string) error {
	files, err := Files()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(folder, "methods"), 0o755); err != nil {
		return err
	}
	for name, b := range files {
		if err := atomicfile.WriteBytes(filepath.Join(folder, name), 0o644, b); err != nil {
			return err
		}
	}
	return nil
}

// Files are the contents by their path in the folder.
func Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	var b strings.Builder
	b.WriteString(`# Methods

<!-- Made from the registry of losses: spml loss docs FOLDER -->

The losses of single-positive multi-label learning. Letters: z logits, p = σ(z), n = 1 - p, sp = -log(1-p), sn = -log p, y = 1 observed positive,
0 unknown, t full labels, ℓ pseudo-labels (1, 0, -1), sg(x) is x without gradient. The loss is the mean of the given entries over the batch (reductions mean, sum, batch).
Curves are for an image of 20 classes with equal logits, parameters as for VOC.

Losses with a fused form compute value and gradient in one pass (Options.Impl); log_eps and all reductions included.

| id | method | needs | estimator | fused form |
|---|---|---|---|---|
`)
	all := loss.Entries()
	for _, e := range all {
		estimator := e.Estimator
		if e.EstimatorNeeds != 0 {
			estimator += " (" + e.EstimatorNeeds.String() + ")"
		}
		fused := ""
		if e.Fused != nil {
			fused = "`" + e.Fused.Op + "`"
			if e.Fused.Except != "" {
				fused += ", except " + e.Fused.Except
			}
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s | %s |\n", e.ID, e.ID, e.Title, e.Needs, estimator, fused)
	}
	forms(&b, all)
	for _, e := range all {
		section(&b, e)
		curves, err := plot.Curves(e, "voc", nil, loss.Options{Impl: loss.Composed})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.ID, err)
		}
		files[filepath.Join("methods", e.ID+".svg")] = plot.SVG(e.Title, curves)
	}
	files["methods.md"] = []byte(b.String())
	return files, nil
}

// forms is the table of what paper and code differ in.
func forms(b *strings.Builder, all []*loss.Entry) {
	b.WriteString(`
## Forms

` + "`--form paper`" + ` is a method as its paper prints it, ` + "`--form code`" + ` as its authors released it; without it a method takes the default below. A recipe without an ending has the
paper's form, one that ends in ` + "`-code`" + ` the released one. A cell says what that form changes against the default; a dash means that the default is that form, or that there is no other.

| method | paper | code |
|---|---|---|
`)
	for _, e := range all {
		cell := func(name string) string {
			if p, ok := e.Forms[name]; ok {
				return p.Doc
			}
			return "–"
		}
		if len(e.Forms) > 0 {
			fmt.Fprintf(b, "| [%s](#%s) | %s | %s |\n", e.ID, e.ID, cell("paper"), cell("code"))
		}
	}
	b.WriteString("\nMethods without a line have one form.\n")
}

func section(b *strings.Builder, e *loss.Entry) {
	fmt.Fprintf(b, "\n## %s\n\n%s. %s.\n\n`%s`\n\n", e.ID, upper(e.Title), e.Source, e.Formula)
	if len(e.Aliases) > 0 {
		fmt.Fprintf(b, "Also called %s.\n", strings.Join(e.Aliases, ", "))
	}
	if len(e.Tables) > 0 {
		fmt.Fprintf(b, "In the tables of %s.\n", strings.Join(e.Tables, ", "))
	}
	if e.Notes != "" {
		b.WriteString(e.Notes + "\n")
	}
	for _, name := range []string{"paper", "code"} {
		if p, ok := e.Forms[name]; ok {
			fmt.Fprintf(b, "\nForm %s: %s.\n", name, p.Doc)
		}
	}
	if len(e.Params) > 0 {
		b.WriteString("\n| parameter | default | VOC | COCO | NUS | CUB | | source |\n|---|---|---|---|---|---|---|---|\n")
	}
	for i := range e.Params {
		p := &e.Params[i]
		fmt.Fprintf(b, "| %s | %s |", p.Name, p.Format(p.Default))
		for _, d := range []string{"voc", "coco", "nus", "cub"} {
			v := ""
			if x, ok := p.ByData[d]; ok {
				v = p.Format(x)
			}
			fmt.Fprintf(b, " %s |", v)
		}
		doc := p.Doc
		if p.Choices != nil {
			doc += " (" + strings.Join(p.Choices, ", ") + ")"
		}
		fmt.Fprintf(b, " %s | %s |\n", doc, p.Source)
	}
	fmt.Fprintf(b, "\n![loss and gradient of %s](methods/%s.svg)\n", e.ID, e.ID)
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
