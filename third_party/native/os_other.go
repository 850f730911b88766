//go:build !linux

package native

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
)

var errPlatform = errors.New("gospml's native libraries are for Linux on x86-64 only")

func lockFile(context.Context, io.Writer, string) (func(), error) { return nil, errPlatform }
func freeBytes(string) (int64, error)                             { return 0, errPlatform }
func syncDisk(string) error                                       { return errPlatform }
func run(context.Context, *exec.Cmd) error                        { return errPlatform }
func owner(os.FileInfo) int                                       { return -1 }
func availableMemory() int64                                      { return 0 }
