package weights

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRegistry: every entry has what a person wants to know, and its hash is the one in its address.
func TestRegistry(t *testing.T) {
	require.Greater(t, len(List()), 30)
	names := map[string]bool{}
	for _, e := range List() {
		require.False(t, names[strings.ToLower(e.Name)], e.Name)
		names[strings.ToLower(e.Name)] = true
		require.NotEmpty(t, e.Network, e.Name)
		require.NotEmpty(t, e.Licence, e.Name)
		require.Regexp(t, `^(torchvision|open_clip_torch|timm) [0-9.]+, `, e.Source)
		require.Regexp(t, `^https://`, e.URL)
		require.Regexp(t, `^([0-9a-f]{64}|[0-9a-f]{8}|)$`, e.SHA256)
		require.Contains(t, e.URL, e.SHA256)
	}
	_, err := Lookup("resnet50.imagenet1k_v3")
	require.EqualError(t, err, `no published weights are called "resnet50.imagenet1k_v3"; did you mean `+
		`"resnet50.imagenet1k_v1"? (spml weights list)`)
	e, err := Lookup("OpenAI/vit-b-16")
	require.NoError(t, err)
	require.Equal(t, "all of SHA-256", e.Hash())
}

// server publishes content at any path; how it answers is changed by each test.
type server struct {
	*httptest.Server
	content []byte
	mu      sync.Mutex
	asked   []string // Range of each request
	cut     int      // bytes after which an answer breaks off, of the first cuts answers
	cuts    int
	ranges  bool
	answer  func(w http.ResponseWriter, r *http.Request) bool // true: it answered
}

func newServer(t *testing.T) *server {
	s := &server{content: make([]byte, 300_000), ranges: true}
	g := rand.NewChaCha8([32]byte{1})
	_, _ = g.Read(s.content)
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Header.Get("Range"))
	cut := s.cuts > 0
	s.cuts--
	s.mu.Unlock()
	if s.answer != nil && s.answer(w, r) {
		return
	}
	if !s.ranges {
		r.Header.Del("Range")
	} else {
		w.Header().Set("ETag", fmt.Sprintf("%q", s.hash()[:8]))
	}
	if cut {
		w = &cutter{w, s.cut}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.content))
}

func (s *server) hash() string {
	h := sha256.Sum256(s.content)
	return hex.EncodeToString(h[:])
}

// cutter breaks the connection after some bytes.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(b []byte) (int, error) {
	if len(b) > c.left {
		_, _ = c.ResponseWriter.Write(b[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}

// with makes the registry hold files of the server, by name and hash, for one test.
func with(t *testing.T, all ...Entry) {
	before, wait := entries, pause
	entries, pause = func() []Entry { return all }, time.Millisecond
	t.Cleanup(func() { entries, pause = before, wait })
}

func TestGet(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name   string
		change func(*server)
		asked  int
	}{
		{"at once", func(*server) {}, 1},
		{"broken off three times and taken up", func(s *server) { s.cut, s.cuts = 80_000, 3 }, 4},
		{"broken off seven times, each time further on", func(s *server) { s.cut, s.cuts = 40_000, 7 }, 8},
		{"a server without ranges", func(s *server) { s.cut, s.cuts, s.ranges = 80_000, 2, false }, 3},
		{"busy at first", func(s *server) {
			n := 0
			s.answer = func(w http.ResponseWriter, _ *http.Request) bool {
				n++
				if n < 3 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				return n < 3
			}
		}, 3},
		{"elsewhere", func(s *server) {
			s.answer = func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasPrefix(r.URL.Path, "/there") {
					return false
				}
				http.Redirect(w, r, "/there"+r.URL.Path, http.StatusFound)
				return true
			}
		}, 2},
		{"slow", func(s *server) {
			s.answer = func(w http.ResponseWriter, _ *http.Request) bool {
				for _, b := range [][]byte{s.content[:100_000], s.content[100_000:]} {
					_, _ = w.Write(b)
					_ = http.NewResponseController(w).Flush()
					time.Sleep(20 * time.Millisecond)
				}
				return true
			}
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t)
			c.change(s)
			with(t, Entry{Name: "a.v1", URL: s.URL + "/models/a-v1.pth", SHA256: s.hash()[:8]})
			var last [2]int64
			store := Store{Dir: t.TempDir(), Progress: func(_ string, done, total int64) { last = [2]int64{done, total} }}
			file, err := store.Get(ctx, "a.v1")
			require.NoError(t, err)
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, s.content, b)
			require.Len(t, s.asked, c.asked)
			require.EqualValues(t, len(s.content), last[0])
			hash, err := store.Verify(ctx, "a.v1")
			require.NoError(t, err)
			require.Equal(t, s.hash(), hash)
			again, err := store.Get(ctx, "a.v1")
			require.NoError(t, err)
			require.Equal(t, file, again)
			require.Len(t, s.asked, c.asked, "nothing is fetched twice")
			left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*.part*"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// TestGoOn: a fetch that a person broke off is taken up by the next one; it begins anew where the file has changed.
func TestGoOn(t *testing.T) {
	for _, other := range []bool{false, true} {
		s := newServer(t)
		with(t, Entry{Name: "a", URL: s.URL + "/a.pth"})
		ctx, cancel := context.WithCancel(context.Background())
		store := Store{Dir: t.TempDir(), Progress: func(_ string, done, _ int64) {
			if done > 100_000 {
				cancel()
			}
		}}
		s.answer = func(w http.ResponseWriter, _ *http.Request) bool { // ends only with the request
			w.Header().Set("ETag", fmt.Sprintf("%q", s.hash()[:8]))
			_, _ = w.Write(s.content[:150_000])
			_ = http.NewResponseController(w).Flush()
			<-ctx.Done()
			panic(http.ErrAbortHandler)
		}
		_, err := store.Get(ctx, "a")
		require.ErrorIs(t, err, context.Canceled)
		_, err = store.Path("a")
		var missing *MissingError
		require.ErrorAs(t, err, &missing)
		s.answer = nil
		if other {
			s.content = append([]byte("new"), s.content...)
		}
		file, err := store.Get(context.Background(), "a")
		require.NoError(t, err)
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, s.content, b)
		require.Regexp(t, `^bytes=1[0-9]{5}-$`, s.asked[1])
	}
}

func TestGetRefuses(t *testing.T) {
	s := newServer(t)
	with(t, Entry{Name: "a", URL: s.URL + "/a.pth", SHA256: "00000000", Megabytes: 10})
	store := Store{Dir: t.TempDir()}
	_, err := store.Get(context.Background(), "a")
	var wrong *HashError
	require.ErrorAs(t, err, &wrong)
	require.Contains(t, err.Error(), "its SHA-256 is "+s.hash()+", that of a begins with 00000000")
	require.Empty(t, files(t, store.Dir, ".pth"), "nothing of a wrong file stays")

	store.Offline = true
	_, err = store.Get(context.Background(), "a")
	require.EqualError(t, err,
		"weights a (10 MB) are not on this machine; fetch them with: spml weights get a (without --offline)")

	store.Offline = false
	s.answer = func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true }
	s.asked = nil
	_, err = store.Get(context.Background(), "a")
	require.ErrorContains(t, err, "answers 404 Not Found; a mirror is named by GOSPML_WEIGHTS_MIRROR")
	require.Len(t, s.asked, 1, "404 is final")

	s.answer = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true }
	s.asked = nil
	var notes []string
	store.Note = func(text string) { notes = append(notes, text) }
	_, err = store.Get(context.Background(), "a")
	require.ErrorContains(t, err, "502 Bad Gateway; 5 attempts; what came is kept, spml weights get a goes on from there")
	require.Len(t, s.asked, Attempts)
	require.Len(t, notes, Attempts-1)

	store.Mirror = "files.example"
	_, err = store.Get(context.Background(), "a")
	require.ErrorContains(t, err, `the mirror "files.example" is no address`)
	_, err = store.Get(context.Background(), "b")
	var unknown *UnknownError
	require.ErrorAs(t, err, &unknown)
}

// An address that is encrypted must not lead to one that is not.
func TestGetStaysEncrypted(t *testing.T) {
	s := newServer(t)
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.URL+r.URL.Path, http.StatusFound)
	}))
	defer front.Close()
	with(t, Entry{Name: "a", URL: front.URL + "/a.pth"})
	_, err := Store{Dir: t.TempDir(), Client: front.Client()}.Get(context.Background(), "a")
	require.ErrorContains(t, err, "which is not encrypted")
}

func TestMirror(t *testing.T) {
	s := newServer(t)
	var asked string
	s.answer = func(_ http.ResponseWriter, r *http.Request) bool { asked = r.URL.Path; return false }
	with(t, Entry{Name: "org/a@2", URL: "https://weights.example/models/a.pth", SHA256: s.hash()})
	store := Store{Dir: t.TempDir(), Mirror: s.URL + "/kept"}
	file, err := store.Get(context.Background(), "org/a@2")
	require.NoError(t, err)
	require.Equal(t, "/kept/weights.example/models/a.pth", asked)
	require.Equal(t, filepath.Join(store.Dir, "org--a-2", "a.pth"), file)
}

func TestVerifyFindsDamage(t *testing.T) {
	s := newServer(t)
	with(t, Entry{Name: "a", URL: s.URL + "/a.pth"}) // no hash published: that of the day it came
	var notes []string
	store := Store{Dir: t.TempDir(), Note: func(text string) { notes = append(notes, text) }}
	file, err := store.Get(context.Background(), "a")
	require.NoError(t, err)
	require.Contains(t, strings.Join(notes, "\n"), "states no hash; kept with the one that came, "+s.hash())
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{s.content[7] ^ 1}, 7)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = store.Verify(context.Background(), "a")
	var wrong *HashError
	require.ErrorAs(t, err, &wrong)
}

// TestBudget: what was used longest ago makes room.
func TestBudget(t *testing.T) {
	s := newServer(t)
	var all []Entry
	for _, n := range []string{"a", "b", "c"} {
		all = append(all, Entry{Name: n, URL: s.URL + "/" + n + ".pth"})
	}
	with(t, all...)
	store := Store{Dir: t.TempDir(), Budget: int64(2*len(s.content)) + 10}
	for _, n := range []string{"a", "b", "a", "c"} {
		_, err := store.Get(context.Background(), n)
		require.NoError(t, err)
		time.Sleep(5 * time.Millisecond)
	}
	_, err := store.Path("b")
	require.Error(t, err)
	require.Len(t, files(t, store.Dir, ".pth"), 2)
}

// Many goroutines ask for the same file: it is fetched once; those that come meanwhile are told who writes it.
func TestConcurrent(t *testing.T) {
	s := newServer(t)
	with(t, Entry{Name: "a", URL: s.URL + "/a.pth", SHA256: s.hash()})
	store := Store{Dir: t.TempDir()}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for {
				file, err := store.Get(context.Background(), "a")
				if err == nil {
					f, err := os.Open(file)
					if err == nil {
						defer f.Close()
						b, _ := io.ReadAll(f)
						if !bytes.Equal(b, s.content) {
							t.Error("a file that is not whole")
						}
					}
					return
				}
				if !strings.Contains(err.Error(), "is being written by") {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	wg.Wait()
	require.Len(t, s.asked, 1)
}

func files(t *testing.T, dir, suffix string) (found []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		ext := filepath.Ext(path)
		if strings.Contains(filepath.Base(path), suffix) && ext != ".lock" && ext != ".sha256" {
			found = append(found, path)
		}
		return err
	}))
	return found
}
