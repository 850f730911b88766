// Command reference writes docs/reference: a Markdown page and a manual page for each command of spml, made from the command tree. A test compares them with the tree.
//
//	go run ./internal/reference docs/reference
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/gospml/gospml/cmd/spml/command"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/reference FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// write replaces the pages of a folder.
func write(dir string) error {
	files, err := pages()
	if err != nil {
		return err
	}
	for _, pattern := range []string{"*.md", "man/*.1"} {
		old, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, f := range old {
			name, err := filepath.Rel(dir, f)
			if err != nil {
				return err
			}
			if _, ok := files[filepath.ToSlash(name)]; !ok {
				if err := os.Remove(f); err != nil {
					return err
				}
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "man"), 0o755); err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pages are all files by name.
func pages() (map[string][]byte, error) {
	root := command.Root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	files := map[string][]byte{}
	index := &strings.Builder{}
	index.WriteString("# Reference of the command\n\n<!-- Made from the command tree: go run ./internal/reference docs/reference -->\n\nA page for each command; `man/` has the same as manual pages (`man docs/reference/man/spml-train.1`).\n\n| command | what it does |\n|---|---|\n")
	date := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // a fixed one, so that pages change with the tree alone
	var walk func(c *cobra.Command) error
	walk = func(c *cobra.Command) error {
		if !c.IsAvailableCommand() && c != root && !c.IsAdditionalHelpTopicCommand() {
			return nil
		}
		c.DisableAutoGenTag = true
		c.InitDefaultHelpFlag()
		c.Long = fenced(c.Long)
		name := strings.ReplaceAll(c.CommandPath(), " ", "_")
		var md, man bytes.Buffer
		if err := doc.GenMarkdown(c, &md); err != nil {
			return err
		}
		if err := doc.GenMan(c, &doc.GenManHeader{Title: strings.ToUpper(strings.ReplaceAll(c.CommandPath(), " ", "-")), Section: "1", Source: "gospml", Manual: "gospml", Date: &date}, &man); err != nil {
			return err
		}
		files[name+".md"], files["man/"+strings.ReplaceAll(name, "_", "-")+".1"] = md.Bytes(), man.Bytes()
		fmt.Fprintf(index, "| [%s](%s.md) | %s |\n", c.CommandPath(), name, strings.ReplaceAll(c.Short, "|", "\\|"))
		for _, sub := range c.Commands() {
			if err := walk(sub); err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(root); err != nil {
		return nil, err
	}
	files["README.md"] = []byte(index.String())
	return files, nil
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
