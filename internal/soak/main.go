// Command soak looks for what only shows after long: it kills writing commands at random and compares what they leave
// to the bit, fills the disk, changes bytes of files under a memory limit, swaps models under requests, and watches the
// memory of thousands of steps and operators.
//
//	make soak SOAK=10m
//
// The parts share the time out and each does some work however short it is. It writes a summary and ends with 1 where
// anything was lost, grew or died.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gospml/gospml/cmd/spml/command"
	"github.com/gospml/gospml/internal/atomicfile"
)

// part is one kind of work with its share of the time.
type part struct {
	name  string
	share float64
	work  func(*job) error
}

var parts = []part{
	{"kill", 0.42, killAndResume},
	{"full disk", 0.13, fullDisk},
	{"mutation", 0.13, mutate},
	{"service", 0.12, service},
	{"steps", 0.12, steps},
	{"operators", 0.08, operators},
}

// job is the work of a part.
type job struct {
	dir     string // a folder of its own
	data    string // drawn pictures with labels and features
	service string // the built example service
	end     time.Time
	random  *rand.Rand
	counts  []string // what was done, for the summary
	lost    []string // what must not be
}

func (j *job) over() bool { return !time.Now().Before(j.end) }

func (j *job) did(format string, a ...any) { j.counts = append(j.counts, fmt.Sprintf(format, a...)) }

func (j *job) lose(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	fmt.Fprintln(os.Stderr, "LOST:", text)
	j.lost = append(j.lost, text)
}

// mode is the environment variable that makes this program another one.
const mode = "GOSPML_SOAK"

func main() {
	switch os.Getenv(mode) {
	case "spml":
		breakDisk()
		command.Main()
	case "mutate":
		os.Exit(mutateChild())
	case "steps":
		os.Exit(stepsChild())
	case "operators":
		os.Exit(operatorsChild())
	}
	limit := flag.Duration("time", 10*time.Minute, "time of all parts together")
	out := flag.String("out", "results/soak.md", "the summary")
	only := flag.String("only", "", "parts with commas between (default: all)")
	seed := flag.Uint64("seed", 1, "of everything that is drawn")
	program := flag.String("service", "bin/service", "examples/service, built")
	flag.Parse()
	ok, err := run(*limit, *out, *only, *seed, *program)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(limit time.Duration, out, only string, seed uint64, program string) (ok bool, err error) {
	program, err = filepath.Abs(program)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "gospml-soak-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "data")
	if err := draw(data, 48); err != nil {
		return false, err
	}
	var chosen []part
	shares := 0.0
	for _, p := range parts {
		if only == "" || strings.Contains(","+only+",", ","+p.name+",") {
			chosen = append(chosen, p)
			shares += p.share
		}
	}
	begun := time.Now()
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Soak\n\n`make soak SOAK=%v`: what shows only after long. Counts of what was done, and what was lost by it.\n\n| part | s | done | lost |\n|---|---|---|---|\n", limit)
	ok = true
	var lost []string
	for _, p := range chosen {
		left := limit - time.Since(begun)
		j := &job{dir: filepath.Join(dir, p.name), data: data, service: program, random: rand.New(rand.NewPCG(seed, uint64(len(p.name))))}
		if err := os.Mkdir(j.dir, 0o755); err != nil {
			return false, err
		}
		start := time.Now()
		j.end = start.Add(time.Duration(float64(left) * p.share / shares))
		shares -= p.share
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.name, j.end.Sub(start).Round(time.Second))
		if err := p.work(j); err != nil {
			j.lose("%s: %v", p.name, err)
		}
		took := time.Since(start).Seconds()
		fmt.Fprintf(os.Stderr, "%s: %.0f s, %s; lost: %d\n", p.name, took, strings.Join(j.counts, ", "), len(j.lost))
		fmt.Fprintf(&b, "| %s | %.0f | %s | %d |\n", p.name, took, strings.Join(j.counts, ", "), len(j.lost))
		ok = ok && len(j.lost) == 0
		lost = append(lost, j.lost...)
		if err := os.RemoveAll(j.dir); err != nil {
			return false, err
		}
	}
	verdict := "Nothing was lost, nothing grew."
	if !ok {
		verdict = "Lost:\n\n* " + strings.Join(lost, "\n* ")
	}
	fmt.Fprintf(&b, "\n%s\n", verdict)
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return false, err
	}
	return ok, atomicfile.WriteBytes(out, 0o644, b.Bytes())
}
