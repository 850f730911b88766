package command

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/recipe"
	"github.com/gospml/gospml/spml/reproduce"
	"github.com/gospml/gospml/spml/train"
)

// completion is what a shell is told of the values that may stand at a place.
type completion = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// addCompletion gives every command of a tree values for its flags and arguments, by what they are called.
func addCompletion(cmd *cobra.Command) {
	for name, f := range map[string]completion{
		"method": completeLoss, "methods": methodList, "recipe": recipes,
		"backbone": fixed(backbone.Names()...), "mode": fixed(config.Frozen, config.FineTune),
		"head":     fixed(config.HeadLinear, config.HeadBoostLU, config.HeadDecoder, config.HeadMLDecoder),
		"progress": fixed(progressAuto, progressBar, progressPlain, progressJSON, progressOff),
		"as":       fixed(reproduce.DataSets...),
		"part":     fixed("train", "val", "test"), "label": classesOfRun, "data": dataSets,
	} {
		if cmd.Flags().Lookup(name) != nil {
			// An error says that the command has said it itself.
			_ = cmd.RegisterFlagCompletionFunc(name, f)
		}
	}
	if cmd.ValidArgsFunction == nil {
		_, args, _ := strings.Cut(cmd.Use, " ")
		switch path := cmd.CommandPath(); {
		case strings.HasPrefix(args, "RUN"):
			cmd.ValidArgsFunction = runsThenFiles(strings.Count(args, "RUN"))
		case strings.HasPrefix(path, "spml recipe "):
			cmd.ValidArgsFunction = recipes
		case path == "spml reproduce":
			cmd.ValidArgsFunction = papers
		}
	}
	for _, c := range cmd.Commands() {
		addCompletion(c)
	}
}

func fixed(values ...string) completion {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

// described joins a value and what a shell shows beside it.
func described(value, what string) string { return value + "\t" + what }

// methodList completes the last name of a list with commas between.
func methodList(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	done := typed[:strings.LastIndex(typed, ",")+1]
	all, _ := completeLoss(cmd, args, "")
	for i := range all {
		all[i] = done + all[i]
	}
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func recipes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, err := recipe.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, r := range all {
		out = append(out, described(r.Name, r.Paper))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func papers(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	items, err := reproduce.Items()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	out := []string{"list"}
	for _, it := range items {
		out = append(out, described(it.ID, it.Title))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func dataSets(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return []string{described(config.Shapes, "drawn pictures")}, cobra.ShellCompDirectiveDefault
}

// runsThenFiles completes run directories for the first arguments, files after them.
func runsThenFiles(runs int) completion {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= runs {
			return nil, cobra.ShellCompDirectiveDefault
		}
		found := runsBelow(typed)
		if len(found) == 0 {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// runsBelow are the run directories whose path begins with what is typed, as deep as comparisons lay them.
func runsBelow(typed string) []string {
	var out []string
	for _, below := range []string{"", "*/", "*/*/"} {
		found, err := filepath.Glob(escapeGlob(typed) + "*/" + below + "run.yaml")
		if err != nil {
			return nil
		}
		for _, f := range found {
			out = append(out, filepath.Dir(f))
		}
	}
	return out
}

func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(s)
}

// classesOfRun completes the classes of the run that --run or the first argument names.
func classesOfRun(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var run string
	if f := cmd.Flags().Lookup("run"); f != nil {
		run = f.Value.String()
	}
	if run == "" && len(args) > 0 {
		run = args[0]
	}
	if _, err := os.Stat(run); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	classes, err := train.ClassNames(run)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return classes, cobra.ShellCompDirectiveNoFileComp
}
