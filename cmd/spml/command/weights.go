package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/internal/screen"
	"github.com/gospml/gospml/spml/weights"
	"github.com/gospml/gospml/third_party/native"
)

func newWeights() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "weights",
		Short: "Published weights by name: list, fetch, verify",
		Long: `Fetches published weights by name. Nothing is fetched that is not named. A fetch that is broken off goes on
where it was; a file is checked against the publisher's hash before it is there. --weights and --clip of every
command take a name as well as a file.

  spml weights list resnet
  spml weights get resnet50.imagenet1k_v1 openai/ViT-B-16
  spml train --data photos --weights resnet50.imagenet1k_v1 --method em --run runs/em
  spml clip info "$(spml weights path openai/ViT-B-16)"

Files lie in the user's cache folder, or where GOSPML_WEIGHTS says. GOSPML_WEIGHTS_MIRROR=https://… is asked in place
of the publishers: its address, then host and path of theirs. GOSPML_WEIGHTS_BUDGET=20GB removes those used longest
ago beyond it. --offline (any command) opens no connection.`,
	}
	cmd.AddCommand(newWeightsList(), newWeightsGet(), newWeightsPath(), newWeightsVerify())
	return cmd
}

// weightsStore is the store that flags and environment ask for; what a person should know goes to standard error.
func weightsStore(cmd *cobra.Command) (s weights.Store, done func(), err error) {
	s.Dir, s.Mirror = os.Getenv("GOSPML_WEIGHTS"), os.Getenv("GOSPML_WEIGHTS_MIRROR")
	if s.Dir == "" {
		cache, err := native.CacheDir()
		if err != nil {
			return s, nil, err
		}
		s.Dir = filepath.Join(cache, "weights")
	}
	if text := os.Getenv("GOSPML_WEIGHTS_BUDGET"); text != "" {
		n, err := byteSize(text)
		if err != nil {
			return s, nil, usageError{fmt.Errorf("GOSPML_WEIGHTS_BUDGET: %w", err)}
		}
		s.Budget = n
	}
	s.Offline, _ = cmd.Flags().GetBool("offline")
	errs := cmd.ErrOrStderr()
	var status *screen.Status
	if screen.IsTerminal(errs) {
		status = screen.NewStatus(errs)
	}
	s.Note = func(text string) { plain.Fprintf(errs, "spml: %s\n", text) }
	start, from := time.Now(), int64(-1)
	s.Progress = func(name string, done, total int64) {
		if from < 0 {
			from = done
			if status == nil {
				plain.Fprintf(errs, "fetching %s (%s)\n", name, megabytes(total))
			}
		}
		if status != nil && total > 0 {
			rate := float64(done-from) / time.Since(start).Seconds()
			left := time.Duration(float64(total-done) / max(rate, 1) * float64(time.Second))
			parts := []string{megabytes(done) + " of " + megabytes(total), fmt.Sprintf("%.1f MB/s", rate/1e6),
				left.Round(time.Second).String() + " left"}
			status.Draw(screen.Progress{What: "fetching " + name, Done: int(done >> 10), Total: int(total >> 10), Parts: parts})
		}
	}
	return s, func() {
		if status != nil {
			status.Clear()
		}
	}, nil
}

func megabytes(bytes int64) string {
	if bytes < 0 {
		return "of unknown size"
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}

// namedWeights replaces names of published weights in --weights and --clip by their files, which it fetches where they
// are not there, and takes the backbone that they are for. A file of that name is taken first.
func namedWeights(cmd *cobra.Command) error {
	var failed error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if failed == nil && (f.Name == "weights" || f.Name == "clip") && f.Value.Type() == "string" {
			name := f.Value.String()
			var file string
			if file, failed = weightsFile(cmd, name); failed != nil || file == name {
				return
			}
			failed = f.Value.Set(file)
			if b := cmd.Flags().Lookup("backbone"); failed == nil && f.Name == "weights" && b != nil && !b.Changed {
				e, err := weights.Lookup(name)
				failed = errors.Join(err, cmd.Flags().Set("backbone", e.Network))
			}
		}
	})
	return failed
}

// weightsFile is the file of published weights of that name; a name that the registry does not have, and one of a file
// that is there, is answered as it is.
func weightsFile(cmd *cobra.Command, name string) (string, error) {
	if _, err := os.Stat(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return name, nil
	}
	var unknown *weights.UnknownError
	if _, err := weights.Lookup(name); errors.As(err, &unknown) {
		if ext := filepath.Ext(name); unknown.Nearest != "" && ext != ".pth" && ext != ".pt" && ext != ".safetensors" {
			return "", err // neither a file nor a name, but near to one
		}
		return name, nil
	}
	s, done, err := weightsStore(cmd)
	if err != nil {
		return "", err
	}
	defer done()
	return s.Get(cmd.Context(), name)
}

func newWeightsList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list [TEXT]", Short: "All names, or those that hold a text, with hash, licence and what is here",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, err := weightsStore(cmd)
			if err != nil {
				return err
			}
			type row struct {
				weights.Entry
				File string `json:"file,omitempty"` // where it lies here
			}
			rows := []row{}
			for _, e := range weights.List() {
				if len(args) == 1 && !strings.Contains(strings.ToLower(e.Name), strings.ToLower(args[0])) {
					continue
				}
				file, err := s.Path(e.Name)
				var missing *weights.MissingError
				if err != nil && !errors.As(err, &missing) {
					return err
				}
				rows = append(rows, row{e, file})
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(rows)
			}
			if len(rows) == 0 {
				return usageError{fmt.Errorf("no name holds %q; all: spml weights list", args[0])}
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "name\tfor\tMB\there\thash\tlicence")
			for _, r := range rows {
				size, here := "-", "-"
				if r.Megabytes > 0 {
					size = fmt.Sprintf("%.0f", r.Megabytes*1.048576)
				}
				if r.File != "" {
					here = "yes"
				}
				plain.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Network, size, here, r.Hash(), r.Licence)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with addresses and sources")
	return cmd
}

func newWeightsGet() *cobra.Command {
	return &cobra.Command{
		Use: "get NAME…", Short: "Fetch weights that are not here and print their files",
		Args:              atLeast(1, "one name or more"),
		ValidArgsFunction: weightsNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if _, err := weights.Lookup(name); err != nil {
					return usageError{err}
				}
			}
			for _, name := range args {
				s, done, err := weightsStore(cmd)
				if err != nil {
					return err
				}
				file, err := s.Get(cmd.Context(), name)
				done()
				if err != nil {
					return err
				}
				plain.Fprintf(cmd.OutOrStdout(), "%s\n", file)
			}
			return nil
		},
	}
}

func newWeightsPath() *cobra.Command {
	return &cobra.Command{
		Use: "path NAME", Short: "The file of weights that are here", Args: exactly(1, "one name"),
		ValidArgsFunction: weightsNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, err := weightsStore(cmd)
			if err != nil {
				return err
			}
			file, err := s.Path(args[0])
			if err != nil {
				return err
			}
			_, err = plain.Fprintf(cmd.OutOrStdout(), "%s\n", file)
			return err
		},
	}
}

func newWeightsVerify() *cobra.Command {
	return &cobra.Command{
		Use: "verify [NAME…]", Short: "Read weights again and compare their hashes: all that are here, or those named",
		ValidArgsFunction: weightsNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, err := weightsStore(cmd)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				for _, e := range weights.List() {
					if _, err := s.Path(e.Name); err == nil {
						args = append(args, e.Name)
					}
				}
				if len(args) == 0 {
					plain.Fprintf(cmd.ErrOrStderr(), "no weights are in %s\n", s.Dir)
				}
			}
			var failed error
			for _, name := range args {
				hash, err := s.Verify(cmd.Context(), name)
				if err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				e, err := weights.Lookup(name)
				if err != nil {
					return err
				}
				plain.Fprintf(cmd.OutOrStdout(), "%s  %s  agrees with the publisher's: %s\n", hash, name, e.Hash())
			}
			return failed
		},
	}
}

func weightsNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, e := range weights.List() {
		names = append(names, e.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
