// Command spml trains, evaluates and applies single-positive multi-label classifiers. `spml help` lists what it does.
package main

import "github.com/gospml/gospml/cmd/spml/command"

func main() { command.Main() }
