package vlm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/journal"
)

// Shard is a process's part of a pass, Index of Count, the first being 0; the zero value is the whole. The parts are
// batches of the whole pass in its order, so what n processes write is what one would have written, given as many
// threads for each.
//
// The processes need not know each other: each leaves a part beside the outputs, and the one that ends last, or is
// started again when all parts lie in one folder, writes the outputs.
type Shard struct{ Index, Count int }

// ParseShard reads "2/4", the second of four.
func ParseShard(s string) (Shard, error) {
	a, b, ok := strings.Cut(s, "/")
	i, err := strconv.Atoi(a)
	n, err2 := strconv.Atoi(b)
	if !ok || err != nil || err2 != nil || i < 1 || i > n {
		return Shard{}, fmt.Errorf("%w: shard %q: want I/N with I from 1 to N", ErrSettings, s)
	}
	return Shard{i - 1, n}, nil
}

func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index+1, max(s.Count, 1)) }

func (s Shard) check() error {
	if s.Count < 0 || s.Index < 0 || s.Index > 0 && s.Index >= s.Count {
		return fmt.Errorf("%w: there is no shard %d of %d", ErrSettings, s.Index, s.Count)
	}
	return nil
}

// whole says whether there are no other parts.
func (s Shard) whole() bool { return s.Count <= 1 }

// journal is where this part is kept; base is where the whole would be.
func (s Shard) journal(base string) string {
	if s.whole() {
		return base + ".partial"
	}
	return fmt.Sprintf("%s.%d-of-%d.partial", base, s.Index+1, s.Count)
}

// print is the fingerprint of a part.
func (s Shard) print(of string) string {
	if s.whole() {
		return of
	}
	return of + " " + s.String()
}

// batches are those of the part, from … to-1.
func (s Shard) batches(all int) (from, to int) {
	if s.whole() {
		return 0, all
	}
	return s.Index * all / s.Count, (s.Index + 1) * all / s.Count
}

// journalHead begins the journal of a run. Its frames are batches: pseudo-labels [b, C] and a line of JSON a photo.
func journalHead(fingerprint string) string {
	return fmt.Sprintf(`{"gospml_pseudo_labels":%q}`, fingerprint)
}

// part is a finished or unfinished part of a pass.
type part struct {
	Shard
	path string
	j    *journal.Journal
}

// parts opens all parts of a pass for reading. waiting are those that have not ended.
func parts(base, print string, count, batches int) (all []part, waiting []Shard, err error) {
	for i := range max(count, 1) {
		s := Shard{i, count}
		p := part{Shard: s, path: s.journal(base)}
		p.j, err = journal.Read(p.path, journalHead(s.print(print)))
		if errors.Is(err, journal.ErrOther) {
			err = fmt.Errorf("%w: %s is of another run (model, settings or data differ); delete it, or start that run again",
				ErrSettings, p.path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return all, nil, err
		}
		from, to := s.batches(batches)
		if p.j == nil || p.j.Frames() < to-from {
			waiting = append(waiting, s)
		}
		if p.j != nil {
			all = append(all, p)
		}
	}
	return all, waiting, nil
}

// lockFile waits for the lock of a file, which is made where it is not there. Who holds the lock removes the file
// before it lets go: so a lock that was got on a file that is no longer the path's is worth nothing, and the next try
// opens the path's.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o664)
		if err != nil {
			return nil, err
		}
		for lock(f) != nil { // the other one reads labels and writes files: seconds
			select {
			case <-ctx.Done():
				return nil, errors.Join(ctx.Err(), f.Close())
			case <-time.After(20 * time.Millisecond):
			}
		}
		held, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if now, err := os.Stat(path); err == nil && os.SameFile(held, now) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// merge writes the outputs when all parts are there. Another process may be doing the same: one after the other, and
// the second finds that its part is gone.
func (l *Labeller) merge(ctx context.Context, ds *data.Dataset, src data.RawSource, o Outputs, base, print string, e Events) (sum *Summary, err error) {
	path := base + ".merging"
	f, err := lockFile(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := os.Stat(o.Shard.journal(base)); errors.Is(err, fs.ErrNotExist) {
		return &Summary{Shard: o.Shard.String(), Merged: true}, os.Remove(path)
	}
	all, waiting, err := parts(base, print, o.Shard.Count, l.settings.batches(ds.N()))
	defer func() {
		for _, p := range all {
			err = errors.Join(err, p.j.Close())
		}
	}()
	if err != nil {
		return nil, err
	}
	if len(waiting) > 0 {
		sum = &Summary{Shard: o.Shard.String()}
		for _, s := range waiting {
			sum.Waiting = append(sum.Waiting, s.String())
		}
		return sum, os.Remove(path)
	}
	if sum, err = l.write(ds, src, all, o, e); err != nil {
		return nil, err
	}
	for _, p := range all {
		if err := os.Remove(p.path); err != nil {
			return nil, err
		}
	}
	return sum, os.Remove(path)
}
