package command

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/internal/screen"
	"github.com/gospml/gospml/spml/rundir"
)

func newRuns() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "Run folders: list, sort, filter, what they take, delete",
		Long: `Looks at a folder of run folders, and at comparisons below it. Without a name the folder is ./runs.

  spml runs list                                     the newest first, with state, mAP and size
  spml runs list experiments --sort val --filter method=em,backbone=resnet50
  spml runs list --filter 'val>80,state=done' --json
  spml runs list --best 1                            of each data set the one with the highest validation mAP
  spml runs disk                                     the largest first, and what lies in them
  spml runs delete runs/old runs/older               asks first
  spml watch runs/em runs/gr                         how they go on, live`,
	}
	cmd.AddCommand(newRunsList(), newRunsDisk(), newRunsDelete())
	return cmd
}

// runSorts order runs, the first of a list first.
var runSorts = map[string]func(a, b rundir.Summary) int{
	"name":    func(a, b rundir.Summary) int { return cmp.Compare(a.Dir, b.Dir) },
	"started": func(a, b rundir.Summary) int { return b.Started.Compare(a.Started) },
	"method":  func(a, b rundir.Summary) int { return cmp.Compare(a.Method, b.Method) },
	"val":     func(a, b rundir.Summary) int { return descending(a.Val, b.Val) },
	"test":    func(a, b rundir.Summary) int { return descending(a.Test, b.Test) },
	"seconds": func(a, b rundir.Summary) int { return cmp.Compare(b.Seconds, a.Seconds) },
	"size":    func(a, b rundir.Summary) int { return cmp.Compare(b.Bytes, a.Bytes) },
}

// runSortNames are the values of --sort.
var runSortNames = []string{"started", "name", "method", "val", "test", "seconds", "size"}

// descending puts scores that are not there last.
func descending(a, b *float64) int {
	switch {
	case a == nil || b == nil:
		return cmp.Compare(given(b), given(a))
	default:
		return cmp.Compare(*b, *a)
	}
}

func given(v *float64) int {
	if v == nil {
		return 0
	}
	return 1
}

// runsOf reads the runs of folders; none means ./runs.
func runsOf(folders []string) (all []rundir.Summary, err error) {
	named := len(folders) > 0
	if !named {
		folders = []string{runsFolder}
	}
	for _, f := range folders {
		found, err := rundir.List(f)
		if err != nil && !named {
			return nil, fmt.Errorf("there is no folder %s here; name one: spml runs list FOLDER: %w", runsFolder, err)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func newRunsList() *cobra.Command {
	var sorted, filter string
	var best int
	var reverse, asJSON bool
	cmd := &cobra.Command{
		Use:   "list [FOLDER…]",
		Short: "Runs with their state, scores and size",
		Long: `Lists the runs at and below folders (default ./runs). val and test are of the epoch whose model is kept.

A filter joins conditions by commas, NAME=VALUE, NAME!=VALUE, NAME>NUMBER or NAME<NUMBER. NAME is one of run, state
(done, running, unfinished, damaged), method, backbone, data, val, test, epoch, seconds, size, or any setting of
spml config show, such as seed or batch_size. A VALUE may hold * and ?.

  spml runs list --filter 'method=em*,lr<0.001' --sort val`,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := runsOf(args)
			if err != nil {
				return err
			}
			if all, err = filtered(all, filter); err != nil {
				return err
			}
			order, ok := runSorts[sorted]
			if !ok {
				return usageError{fmt.Errorf("--sort %s is none of %s", sorted, strings.Join(runSortNames, ", "))}
			}
			if best < 0 {
				return usageError{fmt.Errorf("--best %d, want a number of runs", best)}
			}
			if best > 0 {
				all = bestRuns(all, best)
			} else {
				slices.SortStableFunc(all, order)
			}
			if reverse {
				slices.Reverse(all)
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(append([]rundir.Summary{}, all...)) // [] where there is none
			}
			return listRuns(cmd, all)
		},
	}
	f := cmd.Flags()
	f.StringVar(&sorted, "sort", "started", "started (the newest first), name, method, val, test, seconds or size")
	f.StringVar(&filter, "filter", "", "conditions joined by commas, such as method=em,val>80")
	f.IntVar(&best, "best", 0, "so many runs of each data set, by validation mAP")
	f.BoolVar(&reverse, "reverse", false, "the other way round")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("sort", fixed(runSortNames...)) // the flag is there
	return cmd
}

// bestRuns are the runs of highest validation mAP of each data set, the data sets by name.
func bestRuns(all []rundir.Summary, n int) (out []rundir.Summary) {
	by := map[string][]rundir.Summary{}
	for _, s := range all {
		if s.Val != nil {
			by[s.Data] = append(by[s.Data], s)
		}
	}
	for _, data := range slices.Sorted(maps.Keys(by)) {
		slices.SortStableFunc(by[data], runSorts["val"])
		out = append(out, by[data][:min(n, len(by[data]))]...)
	}
	return out
}

// stateColors are those of a terminal.
var stateColors = map[rundir.State]string{rundir.Running: "36", rundir.Unfinished: "33", rundir.Damaged: "31"}

// listRuns prints a table.
func listRuns(cmd *cobra.Command, all []rundir.Summary) error {
	out := cmd.OutOrStdout()
	if len(all) == 0 {
		plain.Fprintf(out, "no runs\n")
		return nil
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "run\tstate\tmethod\tbackbone\tdata\tepoch\tval\ttest\tsize\tstarted")
	for _, s := range all {
		started := ""
		if !s.Started.IsZero() {
			started = s.Started.Local().Format("2006-01-02 15:04")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", plain.Text(s.Dir), s.State, plain.Text(s.Method),
			plain.Text(s.Backbone), plain.Text(s.Data), epochs(s), score(s.Val), score(s.Test), sized(s.Bytes), started)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	lines := strings.SplitAfter(strings.TrimRight(b.String(), "\n"), "\n")
	for i, line := range lines {
		color := ""
		if i > 0 && screen.HasColor(out) {
			color = stateColors[all[i-1].State]
		}
		if color != "" {
			line = "\x1b[" + color + "m" + strings.TrimSuffix(line, "\n") + "\x1b[0m\n"
		}
		fmt.Fprint(out, strings.TrimSuffix(line, "\n")+"\n")
	}
	for _, s := range all {
		if s.State == rundir.Damaged {
			plain.Fprintf(cmd.ErrOrStderr(), "spml: %s: %s\n", s.Dir, s.Why)
		}
	}
	return nil
}

func epochs(s rundir.Summary) string {
	if s.State == rundir.Damaged {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Epoch, s.Epochs)
}

func score(v *float64) string {
	if v == nil {
		return "n/a"
	}
	return fmt.Sprintf("%.2f", *v)
}

// sized is a number of bytes for people.
func sized(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.0f kB", float64(n)/1e3)
}

func newRunsDisk() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "disk [FOLDER…]",
		Short: "What runs take, the largest first",
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := runsOf(args)
			if err != nil {
				return err
			}
			slices.SortStableFunc(all, runSorts["size"])
			rows := []diskRow{}
			var total diskRow
			for _, s := range all {
				r := diskOf(s)
				rows = append(rows, r)
				total.Model += r.Model
				total.Checkpoints += r.Checkpoints
				total.Other += r.Other
				total.Bytes += r.Bytes
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(rows)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "run\tall\tmodel\tcheckpoints\tothers")
			total.Dir = "all runs"
			for _, r := range append(rows, total) {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", plain.Text(r.Dir), sized(r.Bytes), sized(r.Model), sized(r.Checkpoints),
					sized(r.Other))
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// diskRow is what a run takes, in bytes.
type diskRow struct {
	Dir         string `json:"run"`
	Bytes       int64  `json:"bytes"`
	Model       int64  `json:"model"`
	Checkpoints int64  `json:"checkpoints"` // what it goes on from; its stages' too
	Other       int64  `json:"others"`      // scores, curves, records
}

func diskOf(s rundir.Summary) diskRow {
	r := diskRow{Dir: s.Dir, Bytes: s.Bytes}
	_ = filepath.WalkDir(s.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // it has gone, or is not ours to count
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		rel, _ := filepath.Rel(s.Dir, p)
		switch parts := strings.Split(filepath.ToSlash(rel), "/"); {
		case slices.Contains(parts[:len(parts)-1], "checkpoints"):
			r.Checkpoints += info.Size()
		case slices.Contains(parts[:len(parts)-1], "model"):
			r.Model += info.Size()
		default:
			r.Other += info.Size()
		}
		return nil
	})
	return r
}

func newRunsDelete() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete RUN…",
		Short: "Delete run folders with all that lies in them",
		Long: `Deletes run folders after a question. A run that a process writes is refused, and so is what is no run folder.

  spml runs delete runs/old
  spml runs list --filter state=unfinished --json | jq -r '.[].run' | xargs spml runs delete --yes`,
		Args: atLeast(1, "run directories"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var bytes int64
			for _, dir := range args {
				if _, err := os.Lstat(dir); err != nil {
					return err
				}
				if !rundir.Exists(dir) {
					return fmt.Errorf("%s is no run directory (no %s); nothing is deleted", dir, rundir.SettingsFile)
				}
				s := rundir.Summarize(dir)
				if s.State == rundir.Running {
					return fmt.Errorf("%s is being written; end its process first; nothing is deleted", dir)
				}
				bytes += s.Bytes
				plain.Fprintf(cmd.OutOrStdout(), "%s  %s, %s, val mAP %s, %s\n", dir, s.State, s.Method, score(s.Val),
					sized(s.Bytes))
			}
			if !yes {
				what := "1 run"
				if len(args) > 1 {
					what = fmt.Sprintf("%d runs", len(args))
				}
				plain.Fprintf(cmd.OutOrStdout(), "delete %s, %s? [y/N] ", what, sized(bytes))
				answer, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
				if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
					if err != nil {
						return usageError{fmt.Errorf("no answer; nothing is deleted; --yes deletes without a question")}
					}
					plain.Fprintf(cmd.OutOrStdout(), "nothing is deleted\n")
					return nil
				}
			}
			for _, dir := range args {
				if err := rundir.Delete(dir); err != nil {
					return err
				}
				plain.Fprintf(cmd.OutOrStdout(), "%s: deleted\n", dir)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "delete without a question")
	return cmd
}
