package vlm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/internal/journal"
	"github.com/gospml/gospml/internal/onewriter"
	"github.com/gospml/gospml/npy"
)

// Outputs are the files of a run; those without a name are not written.
type Outputs struct {
	Labels   string // .npy, int8 [N, C] in the order of the data set: 1, -1, 0, observed labels over pseudo-labels
	Evidence string // .jsonl, an Evidence a photo
	Sheet    string // .html, the first photos with their labels and scores, in one file
	Photos   int    // of the sheet; 0: 60
	Shard    Shard  // the part of the pass that this process does; the files are those of the whole
}

// base is the path beside which is kept what a run has done.
func (o *Outputs) base() (string, error) {
	if err := o.Shard.check(); err != nil {
		return "", err
	}
	for _, f := range []struct{ path, ending string }{{o.Labels, ".npy"}, {o.Evidence, ".jsonl"}, {o.Sheet, ".html"}} {
		if f.path != "" && !strings.EqualFold(filepath.Ext(f.path), f.ending) {
			return "", fmt.Errorf("%w: %s does not end in %s", ErrSettings, f.path, f.ending)
		}
	}
	for _, p := range []string{o.Labels, o.Evidence} {
		if p != "" {
			return p, nil
		}
	}
	return "", fmt.Errorf("%w: neither labels nor evidence has a file", ErrSettings)
}

// Events are called while a run goes, on its goroutine; nil ones are left out.
type Events struct {
	Note   func(text string)
	Step   func(done, total int, perSecond float64)
	Broken func(data.Broken)
}

func (e *Events) note(format string, a ...any) {
	if e.Note != nil {
		e.Note(fmt.Sprintf(format, a...))
	}
}

// Run labels all photos of a data set and writes the outputs. Interrupted by ctx, a failure or a kill it leaves a
// journal, FILE.partial, from which the next call with the same settings goes on. A part of a pass ([Shard]) that is
// not the last to end writes no outputs; its summary says who has not.
func (l *Labeller) Run(ctx context.Context, ds *data.Dataset, o Outputs, e Events) (sum *Summary, err error) {
	base, err := o.base()
	if err != nil {
		return nil, err
	}
	src, ok := ds.Source.(data.RawSource)
	if !ok {
		return nil, fmt.Errorf("%w: %s has no image files", ErrSettings, ds.Name)
	}
	if strings.Join(ds.Classes, "\x00") != strings.Join(l.classes, "\x00") {
		return nil, fmt.Errorf("%w: the classes of %s are not the labeller's", ErrSettings, ds.Name)
	}
	print, err := l.fingerprint(ds)
	if err != nil {
		return nil, err
	}
	path := o.Shard.journal(base)
	writer, err := onewriter.Take(path+".lock", path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	defer func() { err = errors.Join(err, writer.Close()) }()
	if !writer.Works() {
		e.note("%s lies on a file system without locks: nothing keeps a second run from writing it", path)
	}
	j, other, err := journal.Open(path, journalHead(o.Shard.print(print)))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	from, to := o.Shard.batches(l.settings.batches(ds.N()))
	first := from * l.settings.Batch
	n := max(0, min(to*l.settings.Batch, ds.N())-first)
	done := func() int { return min(j.Frames()*l.settings.Batch, n) }
	begun := done()
	if other {
		e.note("%s was of another run (model, settings or data differ): starting anew", path)
	} else if begun > 0 {
		e.note("going on after %d of %d photos, from %s", begun, n, path)
	}
	start := time.Now()
	if err := l.pass(ctx, ds, src, j, first, first+n, e); err != nil {
		return nil, fmt.Errorf("stopped after %d of %d photos, which %s keeps for the next run with the same settings: %w", done(), n, path, err)
	}
	seconds := time.Since(start).Seconds()
	if o.Shard.whole() {
		if sum, err = l.write(ds, src, []part{{path: path, j: j}}, o, e); err == nil {
			err = os.Remove(path)
		}
	} else {
		sum, err = l.merge(ctx, ds, src, o, base, print, e)
	}
	if err != nil {
		return nil, err
	}
	sum.Resumed = begun
	if n > begun && seconds > 0 {
		sum.PerSecond = float64(n-begun) / seconds
	}
	return sum, nil
}

// pass labels what the journal lacks of the rows first … last-1: while one batch is encoded the next is read.
func (l *Labeller) pass(
	ctx context.Context, ds *data.Dataset, src data.RawSource, j *journal.Journal, first, last int, e Events,
) error {
	ctx, cancel := context.WithCancel(ctx)
	type loaded struct {
		b   *batch
		err error
	}
	ready, size := make(chan loaded), l.settings.Batch
	go func() {
		defer close(ready)
		for from := first + j.Frames()*size; from < last; from += size {
			var b *batch
			err := caught.Do(func() (err error) {
				b, err = l.read(ctx, src, from, min(last, from+size))
				return err
			})
			select {
			case ready <- loaded{b, err}:
			case <-ctx.Done():
				if b != nil && b.x != nil {
					b.x.Free()
				}
				return
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		cancel()
		for r := range ready { // until the reader has ended
			if r.b != nil && r.b.x != nil {
				r.b.x.Free()
			}
		}
	}()
	start, begun := time.Now(), min(j.Frames()*size, last-first)
	for r := range ready {
		if r.err != nil {
			return r.err
		}
		payload, err := l.payload(ctx, ds, r.b)
		r.b.x.Free()
		if err == nil {
			err = j.Add(payload)
		}
		if err != nil {
			return err
		}
		if e.Step != nil {
			done := r.b.rows[len(r.b.rows)-1] + 1 - first
			e.Step(done, last-first, float64(done-begun)/max(time.Since(start).Seconds(), 1e-9))
		}
	}
	return ctx.Err()
}

// read reads the photos of rows from … to-1.
func (l *Labeller) read(ctx context.Context, src data.RawSource, from, to int) (*batch, error) {
	n := to - from
	rows, files, unread := make([]int, n), make([][]byte, n), make([]error, n)
	for i := range n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rows[i] = from + i
		files[i], unread[i] = src.ReadFile(from+i, nil)
	}
	return l.load(ctx, Photos{Rows: rows, Files: files}, unread)
}

// payload labels a batch and makes its frame.
func (l *Labeller) payload(ctx context.Context, ds *data.Dataset, b *batch) ([]byte, error) {
	var observed []int8
	for _, r := range b.rows {
		observed = append(observed, observedRow(ds, r)...)
	}
	labels, err := l.label(ctx, b, observed)
	if err != nil {
		return nil, err
	}
	c := ds.C()
	out := make([]byte, len(labels.Pseudo))
	for i, y := range labels.Pseudo {
		if b.broken[i/c] == nil {
			out[i] = byte(y)
		}
	}
	for i, r := range b.rows {
		line, err := json.Marshal(evidence(ds, r, i, labels, b.boxes[i], b.broken[i]))
		if err != nil {
			return nil, err
		}
		out = append(append(out, line...), '\n')
	}
	return out, nil
}

// frames walks over the batches of all parts: their first row, pseudo-labels and lines.
func (l *Labeller) frames(ds *data.Dataset, all []part, f func(from int, pseudo, lines []byte) error) error {
	from := 0
	for _, p := range all {
		err := p.j.Each(func(b []byte) error {
			n := min(l.settings.Batch, ds.N()-from)
			if n < 1 || len(b) < n*ds.C() {
				return fmt.Errorf("%s: a frame does not fit the data set; delete the file", p.path)
			}
			if err := f(from, b[:n*ds.C()], b[n*ds.C():]); err != nil {
				return err
			}
			from += n
			return nil
		})
		if err != nil {
			return err
		}
	}
	if from != ds.N() {
		return fmt.Errorf("%s holds %d of %d photos; start again", all[len(all)-1].path, from, ds.N())
	}
	return nil
}

// write writes the outputs, batch by batch, and counts.
func (l *Labeller) write(ds *data.Dataset, src data.RawSource, all []part, o Outputs, e Events) (sum *Summary, err error) {
	if o.Evidence != "" {
		err := atomicfile.WriteFile(o.Evidence, 0o664, func(w io.Writer) error {
			return l.frames(ds, all, func(_ int, _, lines []byte) error { _, err := w.Write(lines); return err })
		})
		if err != nil {
			return nil, err
		}
	}
	if o.Sheet != "" {
		if err := l.sheet(ds, src, all, o); err != nil {
			return nil, err
		}
	}
	if o.Labels == "" {
		return l.collect(ds, all, e, nil)
	}
	err = atomicfile.WriteFile(o.Labels, 0o664, func(w io.Writer) error {
		err := npy.Begin(w, "|i1", []int64{int64(ds.N()), int64(ds.C())})
		if err == nil {
			sum, err = l.collect(ds, all, e, func(labels []byte) error { _, err := w.Write(labels); return err })
		}
		return err
	})
	return sum, err
}

// lines decodes the lines of a frame.
func decodeLines(lines []byte, f func(Evidence) error) error {
	for line := range bytes.Lines(lines) {
		var e Evidence
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

// fingerprint changes with what the labels depend on: settings, model, classes, names, observed labels. Of the files of
// weights and text features it takes name, size and time.
func (l *Labeller) fingerprint(ds *data.Dataset) (string, error) {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode([]any{l.settings, l.model.Config(), ds.Fingerprint(), ds.ObservedFingerprint()}); err != nil {
		return "", err
	}
	files := []string{l.settings.TextFeatures, l.settings.Relation}
	if m := l.model.Loaded(); m != nil {
		fmt.Fprintln(h, m.Kind, m.Stored, l.model.Frozen(), arithmetic(l.model))
		files = append(files, l.weights()...)
	}
	for _, p := range files {
		if st, err := os.Stat(p); err == nil { // the built-in model has no file
			fmt.Fprintln(h, p, st.Size(), st.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
