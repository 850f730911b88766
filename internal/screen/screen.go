// Package screen draws on a person's terminal.
package screen

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Width is how many columns of a terminal a text takes; Chinese letters and emoji take two.
func Width(s string) int { return uniseg.StringWidth(s) }

// Fit leaves what takes at most columns of s, with … in its middle where some is missing.
func Fit(s string, columns int) string {
	if Width(s) <= columns {
		return s
	}
	if columns < 1 {
		return ""
	}
	var parts []string
	for rest, state := s, -1; rest != ""; {
		var c string
		c, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		parts = append(parts, c)
	}
	head, tail, used := 0, len(parts), 1 // the …
	for front := true; head < tail; front = !front {
		next := parts[head]
		if !front {
			next = parts[tail-1]
		}
		if used += Width(next); used > columns {
			break
		}
		if front {
			head++
		} else {
			tail--
		}
	}
	return strings.Join(parts[:head], "") + "…" + strings.Join(parts[tail:], "")
}
