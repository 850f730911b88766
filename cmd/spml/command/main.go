package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/train"
)

// Main executes the program's arguments and ends it with an exit code (`spml help exit-codes`).
func Main() {
	ctx, end := signals()
	code := run(ctx, os.Args[1:])
	end()
	os.Exit(code)
}

// signals gives a context that SIGINT cancels, and that SIGTERM and SIGUSR1 (which Slurm sends before a time limit) end
// with train.ErrStop, so that a run saves a checkpoint. A second signal ends the process at once.
func signals() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	got := make(chan os.Signal, 1)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM, syscall.SIGUSR1)
	go func() {
		s, ok := <-got
		if !ok {
			return
		}
		signal.Stop(got)
		if s == os.Interrupt {
			cancel(context.Canceled)
		} else {
			cancel(fmt.Errorf("%w by %v", train.ErrStop, s))
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		close(got)
		cancel(nil)
	}
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
	root.SetArgs(helpAll(root, args))
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code = exitCode(ctx, err)
	plain.Fprintf(os.Stderr, "spml: %v\n", err)
	var fault *train.PanicError
	if errors.As(err, &fault) {
		fmt.Fprintf(os.Stderr, "\n%s", fault.Stack)
	}
	if code == exitCommand || code == exitUsage && isUsage(err) {
		fmt.Fprintf(os.Stderr, "Run `%s --help` for usage.\n", cmd.CommandPath())
	}
	return code
}
