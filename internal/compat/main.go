// Command compat builds this module against other versions of libtorch than its own and runs the tests of the binding there: the operator table
// (TestSchemas) and what stands on it.
//
//	go run ./internal/compat                   every libtorch-*.lock of this folder
//	go run ./internal/compat -only 2.15.0
//	go run ./internal/compat -lock torch-2.16.0-….whl nvidia_cuda_runtime-….whl … > internal/compat/libtorch-2.16.0.lock
//
// The sources are not touched: an overlay of the go command names the other version and its lock, and libtorch and the libraries built for it go into
// a folder of their own in the cache (about 0.5 GB for each version).
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "one version, for instance 2.15.0; all that have a lock by default")
	lock := flag.Bool("lock", false, "print the lock of the wheels that are named")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *lock {
		err = writeLock(os.Stdout, flag.Args())
	} else {
		err = run(ctx, os.Stdout, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(1)
	}
}

// folder holds the locks, seen from the module's root.
const folder = "internal/compat"

// suite is what runs against each version: the whole binding, and of what stands on it the fused losses (C++ operators that are compiled against libtorch)
// and the networks.
var suite = []struct{ pkg, run string }{
	{"./torch/...", "."},
	{"./spml/loss", "Fused"},
	{"./spml/backbone", "."},
}

func run(ctx context.Context, w io.Writer, only string) error {
	if _, err := os.Stat("third_party/native/libtorch.lock"); err != nil {
		return fmt.Errorf("run it in the module's root: %w", err)
	}
	locks, err := filepath.Glob(filepath.Join(folder, "libtorch-*.lock"))
	if err != nil {
		return err
	}
	var versions []string
	for _, path := range locks {
		v := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "libtorch-"), ".lock")
		if only == "" || v == only {
			versions = append(versions, v)
		}
	}
	if len(versions) == 0 {
		return fmt.Errorf("no lock of libtorch %s in %s", only, folder)
	}
	var broken []string
	for _, v := range versions {
		start := time.Now()
		fmt.Fprintf(w, "=== libtorch %s\n", v)
		r, err := tryVersion(ctx, w, v)
		if err != nil {
			return fmt.Errorf("libtorch %s: %w", v, err)
		}
		expected, err := known(v)
		if err != nil {
			return err
		}
		asKnown, unexpected, stale := judge(r.failed, expected)
		fmt.Fprintf(w, "=== libtorch %s: %d passed, %d known differences, %d failed, %d skipped, %.0f s\n", v, r.passed, len(asKnown), len(unexpected), r.skipped, time.Since(start).Seconds())
		for _, name := range asKnown {
			fmt.Fprintf(w, "known: %s\n", name)
		}
		for _, name := range unexpected {
			fmt.Fprintf(w, "failed: %s\n", name)
		}
		for _, name := range stale {
			fmt.Fprintf(w, "passes, though %s says it does not: %s\n", folder, name)
		}
		if len(unexpected)+len(stale) > 0 || r.passed == 0 || !slices.Contains(r.names, "TestSchemas") {
			broken = append(broken, v)
		}
	}
	if len(broken) > 0 {
		return fmt.Errorf("not compatible with libtorch %s", strings.Join(broken, ", "))
	}
	return nil
}
