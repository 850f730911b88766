// Package plot draws losses over the logit: their value and their gradient, as SVG or as text for a terminal.
package plot
