package command

import (
	"github.com/spf13/cobra"

	"github.com/gospml/gospml/third_party/native"
)

func newSetup() *cobra.Command {
	var o native.Options
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Fetch libtorch and build the native libraries",
		Long: `Takes libtorch from $LIBTORCH, the per-user cache, an importable Python torch of the right version, or downloads it;
then builds gospml's own libraries from the sources inside this program. What is there already is left alone.

  spml setup                      everything for CPU use
  LIBTORCH=/opt/libtorch spml setup    with a libtorch of your own, no download
  spml setup --gpu                also the CUDA part of libtorch and the CUDA libraries (several GB)
  spml setup --cuda               compile the CUDA libraries on a machine without a GPU (0.2 GB)`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := native.Setup(cmd.Context(), cmd.ErrOrStderr(), o)
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.GPU, "gpu", false, "also fetch the CUDA part of libtorch and build the CUDA libraries")
	f.BoolVar(&o.CUDA, "cuda", false, "also build the CUDA libraries; needs no GPU")
	f.BoolVar(&o.Force, "force", false, "fetch and build again even when everything is there")
	f.IntVar(&o.Jobs, "jobs", 0, "compilers at once (0: one per core)")
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "print nothing but errors")
	return cmd
}
