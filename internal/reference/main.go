// Command reference writes docs/reference, a Markdown page for each command of spml and one for all settings, made from
// the command tree; a test compares them with the tree. With -man it writes manual pages, which `make install` does.
//
//	go run ./internal/reference docs/reference
//	go run ./internal/reference -man FOLDER
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/gospml/gospml"
	"github.com/gospml/gospml/cmd/spml/command"
	"github.com/gospml/gospml/spml/config"
)

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 1 && !strings.HasPrefix(args[0], "-"):
		err = write(args[0], "*.md", pages)
	case len(args) == 2 && args[0] == "-man":
		err = write(args[1], "spml*.1", manuals)
	default:
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/reference FOLDER, or -man FOLDER")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// write replaces the files of a folder that match a pattern.
func write(dir, pattern string, make func() (map[string][]byte, error)) error {
	files, err := make()
	if err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		return err
	}
	for _, f := range old {
		if _, ok := files[filepath.Base(f)]; !ok {
			if err := os.Remove(f); err != nil {
				return err
			}
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// commands calls f with every command of the tree.
func commands(f func(c *cobra.Command) error) error {
	root := command.Root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var walk func(c *cobra.Command) error
	walk = func(c *cobra.Command) error {
		if !c.IsAvailableCommand() && c != root && !c.IsAdditionalHelpTopicCommand() {
			return nil
		}
		c.DisableAutoGenTag = true
		c.InitDefaultHelpFlag()
		c.Long = fenced(c.Long)
		if err := f(c); err != nil {
			return err
		}
		for _, sub := range c.Commands() {
			if err := walk(sub); err != nil {
				return err
			}
		}
		return nil
	}
	return walk(root)
}

// manuals are the manual pages by name.
func manuals() (map[string][]byte, error) {
	date := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // a fixed one, so that pages change with the tree alone
	files := map[string][]byte{}
	return files, commands(func(c *cobra.Command) error {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		h := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Manual: "gospml", Date: &date}
		h.Source = "gospml " + gospml.Version
		var b bytes.Buffer
		err := doc.GenMan(c, h, &b)
		files[name+".1"] = b.Bytes()
		return err
	})
}

// pages are the Markdown pages by name.
func pages() (map[string][]byte, error) {
	files := map[string][]byte{settingsPage: settings()}
	index := &strings.Builder{}
	index.WriteString(`# Reference of the command

<!-- Made from the command tree: go run ./internal/reference docs/reference -->

A page for each command; [settings](settings.md) are the flags of all that train. ` + "`make install`" + ` installs the
same as manual pages.

| command | what it does |
|---|---|
`)
	err := commands(func(c *cobra.Command) error {
		name := strings.ReplaceAll(c.CommandPath(), " ", "_") + ".md"
		page, err := markdown(c)
		files[name] = page
		fmt.Fprintf(index, "| [%s](%s) | %s |\n", c.CommandPath(), name, strings.ReplaceAll(c.Short, "|", "\\|"))
		return err
	})
	files["README.md"] = []byte(index.String())
	return files, err
}

const settingsPage = "settings.md"

// markdown is the page of a command. Flags that are settings stand on a page of their own.
func markdown(c *cobra.Command) ([]byte, error) {
	has := map[string]bool{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if key := f.Annotations[command.SettingFlag]; key != nil {
			has[key[0]], f.Hidden = true, true
		}
	})
	var b bytes.Buffer
	if err := doc.GenMarkdown(c, &b); err != nil || len(has) == 0 {
		return b.Bytes(), err
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[command.SettingFlag] != nil {
			f.Hidden = false
		}
	})
	var without []string
	for _, s := range config.Settings() {
		if !has[s.Key] && s.Key != "params" {
			without = append(without, "`--"+flagOf(s.Key)+"`")
		}
	}
	note := "And the [settings](" + settingsPage + ")"
	if without != nil {
		note += " but " + strings.Join(without, ", ")
	}
	before, after, _ := strings.Cut(b.String(), "### SEE ALSO")
	return []byte(before + note + ".\n\n### SEE ALSO" + after), nil
}

func flagOf(key string) string { return strings.ReplaceAll(key, "_", "-") }

// settings is the page of all settings.
func settings() []byte {
	var b strings.Builder
	b.WriteString(`# Settings

<!-- Made from the settings: go run ./internal/reference docs/reference -->

Flags of every command that trains. ` + "`--batch-size 16` is `batch_size: 16` in YAML (`--config`, `run.yaml`) and" + `
` + "`SPML_BATCH_SIZE=16` in the environment. `spml config show`" + ` says what a run would take, and from where.

| flag | what it says |
|---|---|
`)
	all := config.Settings()
	slices.SortFunc(all, func(a, b config.Setting) int { return strings.Compare(a.Key, b.Key) })
	for _, s := range all {
		name := "--" + flagOf(s.Key)
		if s.Key == "params" {
			name = "--param NAME=NUMBER"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, strings.ReplaceAll(s.Doc, "|", "\\|"))
	}
	return []byte(b.String())
}

// fenced puts indented lines of a help text, its examples and tables, between fences, so that they stay as they are.
func fenced(text string) string {
	var out []string
	open := false
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if indented := strings.HasPrefix(line, "  "); indented != open {
			if line == "" && open { // a blank line within examples may go on
				out = append(out, "```", "")
				open = false
				continue
			}
			if open = indented; open && len(out) > 0 && out[len(out)-1] != "" {
				out = append(out, "")
			}
			out = append(out, "```")
		}
		out = append(out, line)
	}
	if open {
		out = append(out, "```")
	}
	return strings.Join(out, "\n")
}
