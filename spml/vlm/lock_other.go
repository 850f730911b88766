//go:build !unix

package vlm

import "os"

// lock does nothing here: one run at a time may write a file.
func lock(*os.File) error { return nil }
