// Package command is the command spml, for programs that add to it: a main function of your own registers its losses and
// calls Main, and then `train`, `loss list` and everything else know them. examples/my-loss is such a program.
package command
