package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// Main executes the program's arguments and ends it with an exit code (`spml help exit-codes`).
func Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run executes the command line and returns its exit code. A panic is our mistake and says so.
func run(ctx context.Context, args []string) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "spml: internal error, please report it: %v\n\n%s", p, debug.Stack())
			code = exitInternal
		}
	}()
	root := newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code = exitCode(ctx, err)
	fmt.Fprintf(os.Stderr, "spml: %v\n", err)
	if code == exitUsage && isUsage(err) {
		fmt.Fprintf(os.Stderr, "Run `%s --help` for usage.\n", cmd.CommandPath())
	}
	return code
}
