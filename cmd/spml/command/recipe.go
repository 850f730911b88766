package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/recipe"
)

func newRecipe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recipe",
		Short: "The papers' settings, each number with its source",
		Long: `Lists, shows and compares the papers' training settings.

  spml recipe list
  spml recipe show gr-cub-resnet50
  spml recipe diff em-voc-resnet50 gr-voc-resnet50
  spml train --recipe gr-cub-resnet50 --data birds --weights resnet50.pth --run runs/gr`,
	}
	cmd.AddCommand(newRecipeList(), newRecipeShow(), newRecipeDiff())
	return cmd
}

func newRecipeList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "All recipes", Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := recipe.List()
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(all)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "recipe\tmethods\tpaper")
			for _, r := range all {
				plain.Fprintf(w, "%s\t%s\t%s\n", r.Name, strings.Join(r.Methods[:min(3, len(r.Methods))], ", "), r.Paper)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newRecipeShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show RECIPE", Short: "A recipe's settings with their sources", Args: exactly(1, "one recipe"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := recipe.Get(args[0])
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(out).Encode(r)
			}
			plain.Fprintf(out, "%s\npaper    %s\ncode     %s\nmethods  %s\n", r.Name, r.Paper, r.Code, strings.Join(r.Methods, ", "))
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			for _, k := range r.Keys() {
				plain.Fprintf(w, "  %s\t%v\t%s\n", k, r.Values[k].Value, r.Values[k].Source())
			}
			if err := w.Flush(); err != nil {
				return err
			}
			for _, d := range r.Deviations {
				plain.Fprintf(out, "deviation: %s\n", d)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newRecipeDiff() *cobra.Command {
	return &cobra.Command{
		Use: "diff RECIPE RECIPE", Short: "What differs between two recipes", Args: exactly(2, "two recipes"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := recipe.Get(args[0])
			if err != nil {
				return err
			}
			b, err := recipe.Get(args[1])
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			plain.Fprintf(w, "setting\t%s\t%s\n", a.Name, b.Name)
			for _, d := range recipe.Diff(a, b) {
				plain.Fprintf(w, "%s\t%s\t%s\n", d.Key, cell(d.A), cell(d.B))
			}
			return w.Flush()
		},
	}
}

func cell(v recipe.Value) string {
	if v.Source() == "" {
		return "-"
	}
	return fmt.Sprint(v.Value)
}
