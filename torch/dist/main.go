package dist

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gospml/gospml/internal/atomicfile"
)

// ExitCode is what a process that Main ends with an error exits with.
const ExitCode = 1

// Main runs the work of a process that a launcher started and ends the process where it fails, panics or is told to end
// (SIGTERM, which torchrun sends to all when one has died): the error goes to standard error and, for torchrun's summary, into the file that
// TORCHELASTIC_ERROR_FILE names. It returns when run succeeds.
func Main(run func() error) {
	if code := guarded(run); code != 0 {
		os.Exit(code)
	}
}

func guarded(run func() error) (code int) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	defer signal.Stop(stop)
	go func() { // run may wait inside libtorch
		if _, ok := <-stop; ok {
			fmt.Fprintln(os.Stderr, "dist: ended by SIGTERM")
			os.Exit(128 + int(syscall.SIGTERM))
		}
	}()
	defer func() {
		if p := recover(); p != nil {
			report(fmt.Errorf("panic: %v", p), string(debug.Stack()))
			code = ExitCode
		}
	}()
	if err := run(); err != nil {
		report(err, "")
		return ExitCode
	}
	return 0
}

func report(err error, stack string) {
	fmt.Fprintln(os.Stderr, err)
	if stack != "" {
		fmt.Fprintln(os.Stderr, stack)
	}
	if e := WriteErrorFile(err, stack); e != nil {
		fmt.Fprintln(os.Stderr, e)
	}
}

// WriteErrorFile writes the file from which torchrun takes the root cause of a failure; without TORCHELASTIC_ERROR_FILE it does
// nothing.
func WriteErrorFile(err error, stack string) error {
	path := os.Getenv("TORCHELASTIC_ERROR_FILE")
	if path == "" {
		return nil
	}
	type extra struct {
		Stack     string `json:"py_callstack"` // what torchrun prints
		Timestamp string `json:"timestamp"`
	}
	type message struct {
		Message string `json:"message"`
		Extra   extra  `json:"extraInfo"`
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	msg := strings.ToValidUTF8(err.Error(), "?")
	text, e := json.Marshal(map[string]message{"message": {msg, extra{strings.TrimSpace(msg + "\n" + stack), now}}})
	if e != nil {
		return e
	}
	if e := atomicfile.WriteBytes(path, 0o644, text); e != nil {
		return fmt.Errorf("dist: writing the launcher's error file: %w", e)
	}
	return nil
}
