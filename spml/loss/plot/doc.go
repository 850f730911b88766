// Package plot draws losses over the logit: their value and their gradient, as SVG.
package plot
