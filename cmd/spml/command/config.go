package command

import (
	"encoding/json"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/plain"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "What settings a run would have",
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
			all, err := settingsOf(c)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			from := func(key string) string {
				if o := l.origin[key]; o != "" {
					return o
				}
				return "default"
			}
			if asJSON {
				m := map[string]any{}
				for _, s := range all {
					m[s.key] = map[string]any{"value": s.value, "origin": from(s.key)}
				}
				return json.NewEncoder(out).Encode(m)
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			for _, s := range all {
				if origin {
					plain.Fprintf(w, "%s:\t%v\t# %s\n", s.key, s.value, from(s.key))
				} else {
					plain.Fprintf(w, "%s:\t%v\n", s.key, s.value)
				}
			}
			return w.Flush()
		},
	}
	s = addSettings(cmd.Flags())
	cmd.Flags().BoolVar(&origin, "origin", false, "say where each setting comes from")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with origins")
	return cmd
}
