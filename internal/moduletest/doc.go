// Package moduletest holds the test of this module as other people get it: packed as a module zip, fetched with
// `go get` into an empty module, its native libraries built by `spml setup` from the sources inside the command.
package moduletest
