package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gospml/gospml/internal/screen"
	"github.com/gospml/gospml/internal/spelling"
)

// commandGroups are the parts of the root's help, in order; a command that stands in none is listed last.
var commandGroups = []struct {
	title    string
	commands string
}{
	{"Train", "train compare sweep reproduce demo plan recipe config"},
	{"Look", "runs watch eval report diff plot explain verify metric"},
	{"Use", "predict export bundle"},
	{"Labels and data", "data pseudo-label audit clip weights"},
	{"Methods", "loss"},
	{"This machine", "doctor setup bench version completion exit-codes help"},
}

// manyFlags is the number from which --help shows the common ones alone.
const manyFlags = 24

// commonFlags are what most people set, in the order of help.
var commonFlags = strings.Fields(`data method methods weights backbone run resume recipe frozen epochs batch-size lr
	image-size seed seeds data-seed param device threads precision config dry-run progress out json help`)

// flagGroups are the parts of --help-all; a flag that stands in none belongs to the command itself and comes first.
var flagGroups = []struct {
	title string
	flags string
}{
	{"Data", `data data-options data-seed class-names exif image-size flip no-flip max-pixels cache cache-dir cache-mb
		cache-file-mb val-labels features strong-features strong-view`},
	{"Method", `method param group-rate group-weight boost boost-eval data-set preset form recipe expected-positives
		log-eps stages stage-one stage-one-delta stage-one-lr queue-size latent-dim`},
	{"Network", `backbone weights init head context class-context decoder-dim mode frozen batch-norm freeze-at
		freeze-epochs grad-checkpointing`},
	{"Image-text model and pseudo-labels", "clip clip-precision pseudo-labels pseudo-options text-features"},
	{"Optimisation", `epochs batch-size micro-batch lr head-lr optimizer momentum weight-decay schedule warmup-epochs
		pct-start power gamma step-epochs clip-norm ema ema-best optimizer-in-backward`},
	{"Run", "run resume seed no-test max-steps patience max-drop save-every keep-last keep-best"},
	{"Machine", "device threads precision deterministic"},
	{"Command", "config dry-run measure progress json help"},
}

// addHelp gives every command help that fits the terminal: commands and flags in groups, common flags first.
func addHelp(root *cobra.Command) {
	for i, g := range commandGroups {
		id := fmt.Sprint(i)
		root.AddGroup(&cobra.Group{ID: id, Title: g.title})
		for _, name := range strings.Fields(g.commands) {
			for _, c := range root.Commands() {
				if c.Name() == name {
					c.GroupID = id
				}
			}
		}
		if slices.Contains(strings.Fields(g.commands), "help") {
			root.SetHelpCommandGroupID(id)
			root.SetCompletionCommandGroupID(id)
		}
	}
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := fmt.Fprint(cmd.OutOrStderr(), usage(cmd, columns(cmd)))
		return err
	})
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		text := cmd.Long
		if text == "" {
			text = cmd.Short
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n%s", wrapped(strings.TrimSpace(text), columns(cmd)), usage(cmd, columns(cmd)))
	})
}

// helpAll asks for every flag: it turns --help-all into --help.
func helpAll(root *cobra.Command, args []string) []string {
	end := len(args)
	if i := slices.Index(args, "--"); i >= 0 {
		end = i
	}
	if i := slices.Index(args[:end], "--help-all"); i >= 0 {
		root.Annotations = map[string]string{"help": "all"}
		args = slices.Clone(args)
		args[i] = "--help"
	}
	return args
}

// columns is the width that help is wrapped to: the terminal's, from 50 to 120.
func columns(cmd *cobra.Command) int {
	n := screen.Columns(cmd.OutOrStdout())
	if n == 0 {
		n = 120
	}
	return max(50, min(n, 120))
}

// usage is what stands below the text of a command's help.
func usage(cmd *cobra.Command, columns int) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() && !cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	} else {
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	commands := func(title, group string) {
		var lines []string
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() && c.GroupID == group {
				lines = append(lines, hanging(fmt.Sprintf("  %-16s ", c.Name()), c.Short, columns))
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s:\n%s", title, strings.Join(lines, ""))
		}
	}
	for _, g := range cmd.Groups() {
		commands(g.Title, g.ID)
	}
	commands("Commands", "")
	flags(&b, cmd, columns)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help says more about a command.\n", cmd.CommandPath())
	}
	return b.String()
}

func flags(b *strings.Builder, cmd *cobra.Command, columns int) {
	left := pflag.NewFlagSet("", pflag.ContinueOnError)
	left.SortFlags = false
	count := 0
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			left.AddFlag(f)
			count++
		}
	})
	group := func(title string, names []string) {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		set.SortFlags = false
		for _, name := range names {
			if f := left.Lookup(name); f != nil && !f.Hidden {
				set.AddFlag(f)
			}
		}
		if set.HasFlags() {
			fmt.Fprintf(b, "\n%s:\n%s", title, set.FlagUsagesWrapped(columns))
		}
	}
	switch {
	case count < manyFlags:
		group("Flags", names(left, nil))
	case cmd.Root().Annotations["help"] != "all":
		var own []string
		for _, g := range flagGroups {
			own = append(own, strings.Fields(g.flags)...)
		}
		own = names(left, append(own, commonFlags...)) // the command's own are what it is about
		group("Flags", append(own, commonFlags...))
		more := count - present(left, append(own, commonFlags...))
		fmt.Fprintf(b, "\n%d more flags in groups: %s --help-all\n", more, cmd.CommandPath())
	default:
		var known []string
		for _, g := range flagGroups {
			known = append(known, strings.Fields(g.flags)...)
		}
		group("Flags of this command", names(left, known))
		for _, g := range flagGroups {
			group(g.title, strings.Fields(g.flags))
		}
	}
}

// names of a set's flags but those of without, as the set has them.
func names(set *pflag.FlagSet, without []string) (all []string) {
	set.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(without, f.Name) {
			all = append(all, f.Name)
		}
	})
	return all
}

func present(set *pflag.FlagSet, names []string) (n int) {
	for _, name := range names {
		if set.Lookup(name) != nil {
			n++
		}
	}
	return n
}

// wrapped breaks paragraphs at a width. Lines that begin with a space are commands and tables, which stay.
func wrapped(text string, columns int) string {
	var b strings.Builder
	var paragraph []string
	end := func() {
		if slices.ContainsFunc(paragraph, func(line string) bool { return screen.Width(line) > columns }) {
			paragraph = []string{strings.TrimRight(hanging("", strings.Join(paragraph, " "), columns), "\n")}
		}
		for _, line := range paragraph {
			b.WriteString(line + "\n")
		}
		paragraph = nil
	}
	for _, line := range strings.Split(text, "\n") {
		if line != "" && !strings.HasPrefix(line, " ") {
			paragraph = append(paragraph, line)
			continue
		}
		end()
		b.WriteString(line + "\n")
	}
	end()
	return strings.TrimRight(b.String(), "\n")
}

// hanging is a text behind its head, the further lines below the text.
func hanging(head, text string, columns int) string {
	var b strings.Builder
	indent := strings.Repeat(" ", screen.Width(head))
	line := head
	for i, word := range strings.Fields(text) {
		if i > 0 && screen.Width(line)+1+screen.Width(word) > columns {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = indent + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	return b.String()
}

// noSuchCommand is the error for a word that is no subcommand.
type noSuchCommand struct {
	word, of, nearest string
}

func (e *noSuchCommand) Error() string {
	s := fmt.Sprintf("%s has no command %q", e.of, e.word)
	if e.nearest != "" {
		s += fmt.Sprintf("; did you mean %q?", e.nearest)
	}
	return s
}

// strictCommands makes every command that only holds others refuse a word that is none of them.
func strictCommands(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		strictCommands(c)
	}
	if !cmd.HasSubCommands() || cmd.Runnable() {
		return
	}
	var known []string
	for _, c := range cmd.Commands() {
		known = append(known, append(slices.Clone(c.Aliases), c.Name())...)
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return &noSuchCommand{args[0], cmd.CommandPath(), spelling.Nearest(args[0], known)}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}
