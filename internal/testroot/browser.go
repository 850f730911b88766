package testroot

import (
	"os/exec"
	"testing"
)

// Browser returns the path of a Chromium for pages that tests look at, and skips the test where there is none.
func Browser(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium on this machine: install chromium to look at the pages")
	return ""
}
