package command

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/third_party/native"
)

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Versions of this program and of what it loads",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			version, commit := rundir.BuildVersion()
			v := struct {
				Module   string `json:"module_version"`
				Commit   string `json:"commit,omitempty"`
				Go       string `json:"go"`
				Libtorch string `json:"libtorch"`
				Build    string `json:"native_build"`
				Platform string `json:"platform"`
			}{version, commit, runtime.Version(), native.TorchVersion, native.BuildKey(), runtime.GOOS + "/" + runtime.GOARCH}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "spml %s (%s, %s), libtorch %s, native build %s\n", v.Module, v.Go, v.Platform, v.Libtorch, v.Build)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
