package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/spml/train"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "What settings a run would have",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q for %q; there is show", args[0], cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigShow())
	return cmd
}

func newConfigShow() *cobra.Command {
	var origin, asJSON bool
	var s *settingFlags
	cmd := &cobra.Command{
		Use:   "show [flags of train]",
		Short: "The settings that train would take, and where each comes from",
		Long: `Puts flags, environment, file, recipe and defaults together as ` + "`spml train`" + ` does, and prints the outcome.

  spml config show --data photos --recipe gr-voc-resnet50 --lr 1e-4 --origin`,
		Args: exactly(0, "only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, l, err := s.configuration()
			if err != nil {
				return err
			}
			if c, err = c.Resolve(); err != nil {
				return err
			}
			values := c.AsSettings()
			out := cmd.OutOrStdout()
			from := func(key string) string {
				if o := l.origin[key]; o != "" {
					return o
				}
				return "default"
			}
			if asJSON {
				all := map[string]any{}
				for k, v := range values {
					all[k] = map[string]any{"value": v, "origin": from(k)}
				}
				return json.NewEncoder(out).Encode(all)
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			line := func(key string, v any) {
				if origin {
					fmt.Fprintf(w, "%s\t%v\t# %s\n", key+":", v, from(key))
				} else {
					fmt.Fprintf(w, "%s\t%v\n", key+":", v)
				}
			}
			for _, x := range train.Settings() {
				if x.Key == "params" {
					for _, name := range slices.Sorted(maps.Keys(c.Params)) {
						line("params."+name, c.Params[name])
					}
					continue
				}
				line(x.Key, values[x.Key])
			}
			return w.Flush()
		},
	}
	s = addSettings(cmd.Flags())
	cmd.Flags().BoolVar(&origin, "origin", false, "say where each setting comes from")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with origins")
	return cmd
}
