package weights

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/onewriter"
)

// Store is a folder of fetched weights. It may be used by many goroutines and processes.
type Store struct {
	Dir string // made when it is not there
	// Mirror is asked in place of the publisher: its address and then the host and the path of the entry's address.
	Mirror string
	// Offline opens no connection: what is not in Dir is an error.
	Offline bool
	// Budget is the most bytes that Dir may hold after a fetch; what was used longest ago goes first. 0 is no limit.
	Budget int64
	// Client is http.DefaultClient where nil.
	Client *http.Client
	// Progress is told how many bytes of how many are there; total is -1 where the server does not say. Nil is allowed.
	Progress func(name string, done, total int64)
	// Note is told what a person should know: another attempt, a hash that is not published, a file that made room.
	Note func(text string)
}

// Attempts is how often a fetch that breaks off is taken up again before it is given up.
const Attempts = 5

// MissingError is the error for weights that are not in the store.
type MissingError struct {
	Entry   Entry
	Offline bool
}

func (e *MissingError) Error() string {
	size := ""
	if e.Entry.Megabytes > 0 {
		size = fmt.Sprintf(" (%.0f MB)", e.Entry.Megabytes*1.048576)
	}
	name := e.Entry.Name
	s := fmt.Sprintf("weights %s%s are not on this machine; fetch them with: spml weights get %s", name, size, name)
	if e.Offline {
		s += " (without --offline)"
	}
	return s
}

// HashError is the error for a file whose content is not what its publisher says.
type HashError struct {
	Entry Entry
	From  string // where it lies or came from
	Got   string
}

func (e *HashError) Error() string {
	return fmt.Sprintf("%s: its SHA-256 is %s, that of %s begins with %s: it is damaged or another file", e.From, e.Got,
		e.Entry.Name, e.Entry.SHA256)
}

func (s Store) note(format string, args ...any) {
	if s.Note != nil {
		s.Note(fmt.Sprintf(format, args...))
	}
}

// place is where an entry lies: a folder of its own, so that equal file names of two publishers do not meet.
func (s Store) place(e Entry) string {
	return filepath.Join(s.Dir, strings.NewReplacer("/", "--", "@", "-").Replace(e.Name), e.File())
}

// Path is the file of a name that was fetched before, or a *MissingError. It looks whether it is there; Verify reads.
func (s Store) Path(name string) (string, error) {
	e, err := Lookup(name)
	if err != nil {
		return "", err
	}
	file := s.place(e)
	if i, err := os.Stat(file); err != nil || !i.Mode().IsRegular() {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		return "", &MissingError{e, s.Offline}
	}
	now := time.Now()
	_ = os.Chtimes(file, now, now) // when it was used last; where that cannot be written, it is only older than it is
	return file, nil
}

// Verify reads a fetched file and compares it with the publisher's hash and with that of the day when it came.
func (s Store) Verify(ctx context.Context, name string) (hash string, err error) {
	e, err := Lookup(name)
	if err != nil {
		return "", err
	}
	file, err := s.Path(name)
	if err != nil {
		return "", err
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, reader{ctx, f}); err != nil {
		return "", err
	}
	hash = hex.EncodeToString(h.Sum(nil))
	if !strings.HasPrefix(hash, e.SHA256) {
		return hash, &HashError{e, file, hash}
	}
	was, err := os.ReadFile(file + ".sha256")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return hash, nil
	case err != nil:
		return hash, err
	case strings.TrimSpace(string(was)) != hash:
		e.SHA256 = strings.TrimSpace(string(was))
		return hash, &HashError{e, file, hash}
	}
	return hash, nil
}

// Get is Path, after a fetch where the file is not there. A fetch that is broken off is taken up where it was, by this
// call or a later one; a file is there whole and with the right hash, or not at all.
func (s Store) Get(ctx context.Context, name string) (string, error) {
	file, err := s.Path(name)
	var missing *MissingError
	if !errors.As(err, &missing) || s.Offline {
		return file, err
	}
	e := missing.Entry
	file = s.place(e)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	lock, err := onewriter.Take(file+".lock", "weights "+e.Name)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if _, err := s.Path(name); err == nil {
		return file, nil // another process was first
	}
	if err := s.fetch(ctx, e, file); err != nil {
		return "", fmt.Errorf("weights %s: %w", e.Name, err)
	}
	return file, s.makeRoom(file)
}

func (s Store) address(e Entry) (string, error) {
	if s.Mirror == "" {
		return e.URL, nil
	}
	u, err := url.Parse(e.URL)
	if err != nil {
		return "", err
	}
	m, err := url.Parse(s.Mirror)
	if err != nil || (m.Scheme != "http" && m.Scheme != "https") || m.Host == "" {
		return "", fmt.Errorf("the mirror %q is no address: want http://… or https://…", s.Mirror)
	}
	return m.JoinPath(u.Host, u.Path).String(), nil
}

func (s Store) fetch(ctx context.Context, e Entry, file string) error {
	from, err := s.address(e)
	if err != nil {
		return err
	}
	part := file + ".part"
	for attempt := 1; ; attempt++ {
		before := size(part)
		err = s.attempt(ctx, e, from, part)
		var stop *finalError
		if err == nil || errors.As(err, &stop) || ctx.Err() != nil {
			break
		}
		if size(part) > before {
			attempt = 1 // it came further
		}
		if attempt >= Attempts {
			const kept = "%w; %d attempts; what came is kept, spml weights get %s goes on from there"
			return fmt.Errorf(kept, err, Attempts, e.Name)
		}
		s.note("%s: %v; trying again", e.Name, err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(attempt) * pause):
		}
	}
	if err != nil {
		return err
	}
	hash, err := hashOf(ctx, part)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(hash, e.SHA256) {
		err := error(&HashError{e, from, hash})
		return errors.Join(err, os.Remove(part), removed(part+".etag"))
	}
	if e.SHA256 == "" {
		s.note("%s: its publisher states no hash; kept with the one that came, %s", e.Name, hash)
	}
	if err := atomicfile.WriteBytes(file+".sha256", 0o644, []byte(hash+"\n")); err != nil {
		return err
	}
	if err := removed(part + ".etag"); err != nil {
		return err
	}
	return os.Rename(part, file)
}

// pause is waited after the first failed attempt; tests make it short.
var pause = time.Second

// finalError is an answer that another attempt does not change.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// attempt appends to part what is missing of it.
func (s Store) attempt(ctx context.Context, e Entry, from, part string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return &finalError{err}
	}
	start := size(part)
	etag, err := os.ReadFile(part + ".etag")
	if start > 0 && err == nil {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", start))
		req.Header.Set("If-Range", string(etag))
	} else {
		start = 0
	}
	client := s.Client
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if req.URL.Scheme == "https" && res.Request.URL.Scheme != "https" {
		return &finalError{fmt.Errorf("%s leads to %s, which is not encrypted", from, res.Request.URL)}
	}
	switch res.StatusCode {
	case http.StatusOK:
		start = 0
	case http.StatusPartialContent:
		var at int64
		if _, err := fmt.Sscanf(res.Header.Get("Content-Range"), "bytes %d-", &at); err != nil || at != start {
			err := fmt.Errorf("%s sent bytes %q, asked for those from %d", from, res.Header.Get("Content-Range"), start)
			return errors.Join(err, removed(part))
		}
	case http.StatusRequestedRangeNotSatisfiable: // another file by now, or a part that is too long
		return errors.Join(fmt.Errorf("%s answers %s", from, res.Status), removed(part))
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Errorf("%s answers %s", from, res.Status)
	default:
		return &finalError{fmt.Errorf("%s answers %s; a mirror is named by GOSPML_WEIGHTS_MIRROR", from, res.Status)}
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if start == 0 {
		flags |= os.O_TRUNC
		if err := keepTag(part, res.Header.Get("ETag")); err != nil {
			return &finalError{err}
		}
	}
	f, err := os.OpenFile(part, flags, 0o644)
	if err != nil {
		return &finalError{err}
	}
	total := int64(-1)
	if res.ContentLength >= 0 {
		total = start + res.ContentLength
	}
	w := &counted{f, s.Progress, e.Name, start, total}
	_, err = io.Copy(w, res.Body)
	if e := errors.Join(f.Sync(), f.Close()); e != nil {
		return &finalError{e}
	}
	var disk *fs.PathError
	if errors.As(err, &disk) {
		return &finalError{err}
	}
	return err
}

// keepTag writes down what names this state of the file at its server; without one a broken fetch begins anew.
func keepTag(part, tag string) error {
	if tag == "" || strings.HasPrefix(tag, "W/") {
		return removed(part + ".etag")
	}
	return atomicfile.WriteBytes(part+".etag", 0o644, []byte(tag))
}

// makeRoom removes what was used longest ago until the store is within its budget. The file that has just come stays.
func (s Store) makeRoom(newest string) error {
	if s.Budget <= 0 {
		return nil
	}
	type kept struct {
		file string
		size int64
		used time.Time
	}
	var all []kept
	total := size(newest)
	for _, e := range entries() {
		if file := s.place(e); file != newest {
			if i, err := os.Stat(file); err == nil {
				all = append(all, kept{file, i.Size(), i.ModTime()})
				total += i.Size()
			}
		}
	}
	slices.SortFunc(all, func(a, b kept) int { return a.used.Compare(b.used) })
	for _, k := range all {
		if total <= s.Budget {
			return nil
		}
		if err := errors.Join(removed(k.file), removed(k.file+".sha256")); err != nil {
			return err
		}
		s.note("removed %s to stay within %d bytes", k.file, s.Budget)
		total -= k.size
	}
	if total > s.Budget {
		s.note("%s alone is larger than the budget of %d bytes", newest, s.Budget)
	}
	return nil
}

func size(file string) int64 {
	i, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return i.Size()
}

func removed(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func hashOf(ctx context.Context, file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, reader{ctx, f}); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// reader ends with its context.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

type counted struct {
	io.Writer
	progress    func(name string, done, total int64)
	name        string
	done, total int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.done += int64(n)
	if c.progress != nil {
		c.progress(c.name, c.done, c.total)
	}
	return n, err
}
