package native

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// downloadAttempts is how often a wheel is asked for when the connection breaks in the middle.
const downloadAttempts = 3

// queryPatience is how long a program may take to answer a question about itself.
const queryPatience = 20 * time.Second

// findPip returns the command line that starts pip. Its Python may be of any version.
func findPip(ctx context.Context) ([]string, error) {
	candidates := [][]string{{"pip3"}, {"pip"}}
	// The interpreter itself, since version managers put scripts before it which would outlive a killed set-up.
	if out, err := output(ctx, "python3", "-c", "import sys; print(sys.executable)"); err == nil && out != "" {
		candidates = append([][]string{{out, "-m", "pip"}}, candidates...)
	}
	for _, argv := range candidates {
		if out, err := output(ctx, argv[0], append(argv[1:], "--version")...); err == nil && strings.HasPrefix(out, "pip ") {
			return argv, nil
		}
	}
	return nil, fmt.Errorf("pip, which downloads libtorch, is not installed: run `%s`, or set LIBTORCH to a folder with "+
		"libtorch %s", aptCommand("python3-pip"), TorchVersion)
}

// output is what a short-running program prints, without the white space around it.
func output(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, queryPatience)
	defer cancel()
	cmd := command(ctx, string(filepath.Separator), program, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// downloadWheel lets pip fetch one wheel into dir, which is empty, and returns its path. pip's temporary files stay
// below dir too.
func downloadWheel(ctx context.Context, w io.Writer, pip []string, wh *wheel, dir string) (string, error) {
	tags, err := wh.tags()
	if err != nil {
		return "", err
	}
	dest, tmp := filepath.Join(dir, "wheel"), filepath.Join(dir, "tmp")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return "", err
	}
	// The hash in the requirement makes pip take exactly this file, also where an index offers other builds of the
	// version.
	req := filepath.Join(dir, "requirement.txt")
	line := fmt.Sprintf("%s==%s --hash=sha256:%s\n", wh.Name, wh.Version, wh.SHA256)
	if err := os.WriteFile(req, []byte(line), 0o644); err != nil {
		return "", err
	}
	// Platform and Python are those of the file, not of this machine: pip compares tags exactly.
	args := append(pip[1:len(pip):len(pip)], "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir",
		"--disable-pip-version-check", "--progress-bar=off", "--python-version=311", "--implementation=cp", "--abi="+tags.abi)
	for _, p := range tags.platforms {
		args = append(args, "--platform="+p)
	}
	args = append(args, "--dest="+dest, "--require-hashes", "--requirement="+req)

	var out bytes.Buffer
	for attempt := 1; ; attempt++ {
		out.Reset()
		cmd := command(context.Background(), string(filepath.Separator), pip[0], args...) // run stops it
		cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
		cmd.Stdout, cmd.Stderr = &out, &out
		stop := watchDownload(w, wh.Name, tmp, wh.Size)
		err := run(ctx, cmd)
		stop()
		if err == nil {
			return filepath.Join(dest, wh.File), nil
		}
		if ctx.Err() != nil {
			return "", fmt.Errorf("downloading %s: %w", wh.Name, ctx.Err())
		}
		begun := strings.Contains(out.String(), "Downloading ")
		if !begun || attempt == downloadAttempts || strings.Contains(out.String(), "DO NOT MATCH THE HASHES") {
			return "", pipError(wh, out.String())
		}
		fmt.Fprintf(w, "  %s: the connection broke (%s); trying again\n", wh.Name, lastError(out.String()))
	}
}

// pipError turns pip's output into one sentence.
func pipError(wh *wheel, out string) error {
	offline := []string{"NewConnectionError", "ConnectTimeout", "Name or service not known", "Temporary failure in name resolution",
		"Network is unreachable", "ProxyError", "Connection refused", "SSLError"}
	for _, s := range offline {
		if strings.Contains(out, s) {
			return fmt.Errorf("pip reached no package index for %s %s (%s): connect, or copy a libtorch %s here and set LIBTORCH to its folder",
				wh.Name, wh.Version, lastError(out), TorchVersion)
		}
	}
	if strings.Contains(out, "DO NOT MATCH THE HASHES") {
		return fmt.Errorf("%s is not the locked file (SHA-256 differs): run setup again, or look at what your package index serves", wh.File)
	}
	return fmt.Errorf("pip could not download %s %s: %s; run setup again, or set LIBTORCH to a folder with libtorch %s",
		wh.Name, wh.Version, lastError(out), TorchVersion)
}

// lastError picks the line that says most: pip's last "ERROR:", else its last line.
func lastError(out string) string {
	last, lastErr := "", ""
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "ERROR: "); ok {
			lastErr = rest
		}
		if line != "" {
			last = line
		}
	}
	if lastErr != "" {
		return lastErr
	}
	if last == "" {
		return "it printed nothing"
	}
	return last
}
