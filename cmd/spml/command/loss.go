package command

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/internal/screen"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/docs"
	"github.com/gospml/gospml/spml/loss/plot"
	"github.com/gospml/gospml/torch"
)

func newLoss() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "loss",
		Short: "The losses: list them, read about one, draw them",
		Long: `Looks losses up in the registry that training, tests and documentation share.

  spml loss list              all of them, with what they need
  spml loss show em-apl       formula, source, parameters, forms
  spml loss plot an em        their curves over the logit, in an-em.svg
  spml loss unified           losses as settings of GR's framework: k̂, v, L1, L2, L3
  spml loss docs FOLDER       a page about each

A loss of your own: examples/my-loss is a program of 33 lines that is this command with one more.`,
	}
	cmd.AddCommand(newLossList(), newLossShow(), newLossPlot(), newLossUnified(), newLossDocs())
	return cmd
}

func newLossUnified() *cobra.Command {
	return &cobra.Command{
		Use:   "unified",
		Short: "Show losses as settings of GR's framework",
		Long: `Shows losses by what they put into GR's framework (Chen et al. 2024, Tables 1 and 4): L1 where a label is observed, v·[k̂·L2 + (1-k̂)·L3] where it is not. The last
columns are the loss of a label that is not observed at p = 0.1, 0.5 and 0.9.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "LOSS\tk̂(p)\tv(p)\tL1\tL2\tL3\tp = 0.1\t0.5\t0.9")
			for _, r := range loss.Framework() {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s", r.Name, r.K, r.V, r.L1, r.L2, r.L3)
				for _, p := range []float64{0.1, 0.5, 0.9} {
					var value float64
					if err := torch.Try(func() {
						torch.Scope(func(*torch.Arena) {
							z := torch.FromSlice([]float64{p}).Logit()
							value = r.Functions.Loss(z, torch.FromSlice([]float64{0})).Item()
						})
					}); err != nil {
						return err
					}
					fmt.Fprintf(w, "\t%.4f", value)
				}
				fmt.Fprintln(w)
			}
			return w.Flush()
		},
	}
}

func newLossList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the losses",
		Args:  exactly(0, "only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			all := loss.Entries()
			if asJSON {
				facts := make([]lossFacts, len(all))
				for i, e := range all {
					facts[i] = factsOf(e)
				}
				return indented(out, facts)
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tNAME\tFUSED\tNEEDS\tESTIMATOR\tTABLES")
			for _, e := range all {
				fused := "no"
				if e.Fused != nil {
					fused = "yes"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, e.Title, fused, e.Needs, e.Estimator, strings.Join(e.Tables, ", "))
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with everything that `show` says")
	return cmd
}

func newLossShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "show NAME",
		Short:             "Describe a loss: formula, source, parameters, forms, needs",
		Args:              exactly(1, "the name of a loss"),
		ValidArgsFunction: completeLoss,
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := lookup(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return indented(cmd.OutOrStdout(), factsOf(e))
			}
			_, err = io.WriteString(cmd.OutOrStdout(), loss.Describe(e))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newLossPlot() *cobra.Command {
	var (
		file, dataSet string
		params        []string
		o             loss.Options
		ascii         bool
	)
	cmd := &cobra.Command{
		Use:   "plot NAME…",
		Short: "Draw losses and their gradients over the logit",
		Long: `Draws value and gradient of losses over the logit, for each kind of label that they tell apart, into one SVG file. An image of
20 classes with equal logits is taken, so that terms of the whole batch show too. On a terminal a sketch follows.

  spml loss plot gr                                 gr.svg
  spml loss plot an em entmin --out unknown.svg
  spml loss plot em --param alpha=0.5 --ascii`,
		Args:              atLeast(1, "names of losses"),
		ValidArgsFunction: completeLoss,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := torch.Available(); err != nil {
				return err
			}
			var all []*loss.Entry
			for _, name := range args {
				e, err := lookup(name)
				if err != nil {
					return err
				}
				all = append(all, e)
			}
			set, err := lossParams(all, params)
			if err != nil {
				return err
			}
			var curves []plot.Series
			var ids, titles []string
			for i, e := range all {
				if _, err := e.Make(dataSet, set[i], o); err != nil {
					return usageError{err}
				}
				c, err := plot.Curves(e, dataSet, set[i], o)
				if err != nil {
					return err
				}
				for k := range c {
					if len(all) > 1 {
						c[k].Name = e.ID + ": " + c[k].Name
					}
				}
				ids, titles, curves = append(ids, e.ID), append(titles, e.Title), append(curves, c...)
			}
			if file == "" {
				file = strings.Join(ids, "-") + ".svg"
			}
			out, title := cmd.OutOrStdout(), strings.Join(titles, ", ")
			picture := plot.SVG(title, curves)
			if file == "-" {
				_, err := out.Write(picture)
				return err
			}
			if err := atomicfile.WriteBytes(file, 0o644, picture); err != nil {
				return err
			}
			if columns := screen.Columns(out); ascii || columns > 0 {
				if columns == 0 {
					columns = 80
				}
				fmt.Fprintln(out, plot.Text(title, curves, min(columns, 100)))
			}
			_, err = plain.Fprintf(out, "wrote %s\n", file)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "out", "o", "", "file to write, - for the output (default: the losses' names + .svg)")
	f.StringVar(&dataSet, "data-set", "voc", "whose published parameters to take: voc, coco, nus, cub")
	f.StringArrayVar(&params, "param", nil, "parameter of the losses that have it, NAME=VALUE; repeatable")
	f.SetNormalizeFunc(renamedFlag("preset", "form"))
	f.StringVar(&o.Form, "form", "", "printed or released form: paper, code")
	f.Float64Var(&o.LogEps, "log-eps", 0, "epsilon inside logarithms (0: exact)")
	f.BoolVar(&ascii, "ascii", false, "sketch also where the output is no terminal")
	return cmd
}

func newLossDocs() *cobra.Command {
	return &cobra.Command{
		Use:   "docs FOLDER",
		Short: "Write a page about all losses, methods.md, and their pictures",
		Args:  exactly(1, "a folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := torch.Available(); err != nil {
				return err
			}
			if err := docs.Write(args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "wrote", filepath.Join(args[0], "methods.md"))
			return err
		},
	}
}

func lookup(name string) (*loss.Entry, error) {
	e, err := loss.Lookup(name)
	if err != nil {
		return nil, usageError{err}
	}
	return e, nil
}

// lossParams reads NAME=VALUE for each loss; a choice may be given by name. One of the losses must have the parameter.
func lossParams(all []*loss.Entry, params []string) ([]loss.Values, error) {
	set := make([]loss.Values, len(all))
	for i := range set {
		set[i] = loss.Values{}
	}
	for _, p := range params {
		name, value, ok := strings.Cut(p, "=")
		if !ok {
			return nil, usageError{fmt.Errorf("--param %q: want NAME=VALUE, for instance alpha=0.1", p)}
		}
		var missing error
		found := false
		for i, e := range all {
			param, err := e.Param(name)
			if err != nil {
				missing = err
				continue
			}
			found = true
			if set[i][name], err = param.Parse(value); err != nil {
				return nil, usageError{err}
			}
		}
		if !found {
			return nil, usageError{missing}
		}
	}
	return set, nil
}

func completeLoss(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, e := range loss.Entries() {
		names = append(names, e.ID+"\t"+e.Title)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func indented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// lossFacts is an entry as JSON.
type lossFacts struct {
	ID             string               `json:"id"`
	Title          string               `json:"title"`
	Aliases        []string             `json:"aliases"`
	Formula        string               `json:"formula"`
	Source         string               `json:"source"`
	Notes          string               `json:"notes"`
	Needs          []string             `json:"needs"`
	Estimator      string               `json:"estimator"`
	EstimatorNeeds []string             `json:"estimator_needs"`
	Tables         []string             `json:"tables"`
	Fused          string               `json:"fused"` // operator, "" = none
	Params         []paramFacts         `json:"params"`
	Forms          map[string]formFacts `json:"forms"`
}

type paramFacts struct {
	Name    string             `json:"name"`
	Doc     string             `json:"doc"`
	Default float64            `json:"default"`
	ByData  map[string]float64 `json:"by_data"`
	Choices []string           `json:"choices,omitempty"` // names of the values 0, 1, …
}

type formFacts struct {
	Doc       string                 `json:"doc"`
	Set       loss.Values            `json:"set,omitempty"`
	ByData    map[string]loss.Values `json:"by_data,omitempty"`
	LogEps    float64                `json:"log_eps,omitempty"`
	Reduction loss.Reduction         `json:"reduction,omitempty"`
}

func factsOf(e *loss.Entry) lossFacts {
	list := func(s []string) []string { return append([]string{}, s...) } // [] instead of null
	f := lossFacts{
		ID: e.ID, Title: e.Title, Aliases: list(e.Aliases), Formula: e.Formula, Source: e.Source, Notes: e.Notes, Needs: list(e.Needs.Names()),
		Estimator: e.Estimator, EstimatorNeeds: list(e.EstimatorNeeds.Names()), Tables: list(e.Tables),
		Params: []paramFacts{}, Forms: map[string]formFacts{},
	}
	if e.Fused != nil {
		f.Fused = e.Fused.Op
	}
	for _, p := range e.Params {
		by := map[string]float64{}
		for d, v := range p.ByData {
			by[d] = v
		}
		f.Params = append(f.Params, paramFacts{p.Name, p.Doc, p.Default, by, p.Choices})
	}
	for name, p := range e.Forms {
		f.Forms[name] = formFacts(p)
	}
	return f
}
