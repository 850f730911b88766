package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/exiftest"
	"github.com/gospml/gospml/internal/exiftest/upright"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/rundir"
)

// fake is a tagger that a test controls.
type fake struct {
	tag    func(ctx context.Context, photo []byte) ([]model.Label, error)
	closed atomic.Bool
	stuck  chan struct{} // CloseContext waits for it; nil: it does not
}

func (f *fake) Tag(ctx context.Context, photo []byte) ([]model.Label, error) {
	return f.tag(ctx, photo)
}

func (f *fake) CloseContext(ctx context.Context) error {
	if f.stuck != nil {
		select {
		case <-f.stuck:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.closed.Store(true)
	return nil
}

func answers(context.Context, []byte) ([]model.Label, error) { return []model.Label{}, nil }

// fakeService listens with a tagger of the test's.
func fakeService(t *testing.T, o Options, f *fake) (*Service, server) {
	if o.Runs == "" {
		o.Runs, o.Data = t.TempDir(), t.TempDir()
	}
	s, err := New(o)
	require.NoError(t, err)
	s.model = &served{tagger: f, run: "fake"}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, l) }()
	t.Cleanup(func() { cancel(); <-ended })
	return s, server{"http://" + l.Addr().String(), l.Addr().String()}
}

type server struct{ URL, addr string }

func request(t *testing.T, method, url string, body io.Reader, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, body)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(b)
}

// A page of another site, opened in a browser on the same machine, can start, stop and change nothing.
func TestOtherSites(t *testing.T) {
	o := Options{Data: t.TempDir(), Runs: t.TempDir(), Hosts: []string{"tagger.example"}}
	s, srv := fakeService(t, o, &fake{tag: answers})
	defer s.Close()
	body := fmt.Sprintf(short, "c", 1)
	for _, x := range []struct {
		method, path, body string
		header             []string
		status             int
	}{
		{"POST", "/train", body, []string{"Content-Type", "application/json", "Origin", "https://evil.example"}, 403},
		{"POST", "/train", body, []string{"Content-Type", "text/plain", "Origin", "https://evil.example"}, 403},
		{"POST", "/train", body, []string{"Content-Type", "text/plain", "Sec-Fetch-Site", "cross-site"}, 403},
		{"POST", "/train", body, []string{"Content-Type", "application/json", "Origin", "null"}, 403},
		{"POST", "/model/a", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"POST", "/train/a/resume", "", []string{"Origin", "http://localhost:1"}, 403},
		{"DELETE", "/train/a", "", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"POST", "/train", body, []string{"Content-Type", "application/json", "Host", "evil.example"}, 403}, // a name that was pointed to this machine
		{"GET", "/train/a", "", []string{"Host", "evil.example:8080"}, 403},
		{"POST", "/train", body, nil, 415},
		{"POST", "/train", body, []string{"Content-Type", "text/plain"}, 415},
		{"POST", "/train", body, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		{"POST", "/train", body, []string{"Content-Type", "application/json; charset=utf-8"}, 404}, // there is no such data set: it was read
		{"POST", "/train", body, []string{"Content-Type", "application/json", "Sec-Fetch-Site", "same-origin"}, 404},
		{"GET", "/healthz", "", []string{"Host", "tagger.example"}, 200},
		{"GET", "/healthz", "", []string{"Host", "localhost:8080"}, 200},
		{"GET", "/healthz", "", []string{"Host", "[::1]:8080"}, 200},
		{"POST", "/tag", "x", nil, 200},
	} {
		status, text := request(t, x.method, srv.URL+x.path, strings.NewReader(x.body), x.header...)
		require.Equal(t, x.status, status, "%v %s", x, text)
	}
	require.Empty(t, s.trainer.jobs)
}

// Bodies wait for room before they are read, a slow one gives its room back, and one that cannot fit is refused at
// once.
func TestBodiesWait(t *testing.T) {
	var most, now atomic.Int64
	f := &fake{tag: func(ctx context.Context, b []byte) ([]model.Label, error) {
		n := now.Add(1)
		for {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		time.Sleep(20 * time.Millisecond)
		now.Add(-1)
		return []model.Label{}, nil
	}}
	s, srv := fakeService(t, Options{Bodies: 2}, f)
	s.bodyTime = 300 * time.Millisecond
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			status, _ := request(t, "POST", srv.URL+"/tag", strings.NewReader(strings.Repeat("x", 1<<20)))
			require.Equal(t, http.StatusOK, status)
		})
	}
	wg.Wait()
	require.EqualValues(t, 2, most.Load())

	// Two senders that do not go on hold both places, but not for long.
	var slow []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", srv.addr)
		require.NoError(t, err)
		defer c.Close()
		fmt.Fprintf(c, "POST /tag HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc")
		slow = append(slow, c)
	}
	require.Eventually(t, func() bool { return len(s.bodies) == 2 }, 5*time.Second, time.Millisecond)
	status, _ := request(t, "POST", srv.URL+"/tag", strings.NewReader("x"))
	require.Equal(t, http.StatusOK, status)
	for _, c := range slow {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
		line, err := bufio.NewReader(c).ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, "408")
	}

	// Where no place becomes free the caller hears of it, and its body was never read.
	s.waitTime = 50 * time.Millisecond
	s.bodies <- struct{}{}
	s.bodies <- struct{}{}
	body := &counted{Reader: strings.NewReader(strings.Repeat("x", 16<<20))}
	status, text := request(t, "POST", srv.URL+"/tag", body)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "too many photos")
	require.Less(t, body.n.Load(), int64(8<<20), "only what the sockets hold was sent")
	status, _ = request(t, "POST", srv.URL+"/tag", strings.NewReader(strings.Repeat("x", maxPhoto+1)))
	require.Equal(t, http.StatusRequestEntityTooLarge, status, "its length is known before it is read")
	<-s.bodies
	status, _ = request(t, "POST", srv.URL+"/tag", &counted{Reader: strings.NewReader(strings.Repeat("x", maxPhoto+1))})
	require.Equal(t, http.StatusRequestEntityTooLarge, status, "its length is not known")
}

// counted hides how long a body is and counts what was sent of it.
type counted struct {
	io.Reader
	n atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// One model is loaded at a time; the one before it is freed after its last request, and until then no third one is
// loaded.
func TestModelSwaps(t *testing.T) {
	release, inWork := make(chan struct{}), make(chan struct{})
	old := &fake{tag: func(context.Context, []byte) ([]model.Label, error) {
		close(inWork)
		<-release
		return []model.Label{}, nil
	}}
	s, srv := fakeService(t, Options{}, old)
	first := make(chan string, 1)
	go func() {
		_, text := request(t, "POST", srv.URL+"/tag", strings.NewReader("x"))
		first <- text
	}()
	<-inWork
	s.loads <- struct{}{}
	next := &fake{tag: answers}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, s.swap(ctx, &served{tagger: next, run: "next"}))
	status, text := request(t, "POST", srv.URL+"/tag", strings.NewReader("x"))
	require.Equal(t, http.StatusOK, status, "a slow request holds nobody up")
	require.Contains(t, text, `"next"`)
	require.False(t, old.closed.Load())
	status, text = request(t, "POST", srv.URL+"/model/third", nil)
	require.Equal(t, http.StatusServiceUnavailable, status, text)
	require.Contains(t, text, "another model is being loaded")
	close(release)
	require.Contains(t, <-first, `"fake"`)
	require.Eventually(t, func() bool { return old.closed.Load() && len(s.loads) == 0 }, 5*time.Second, time.Millisecond)
	require.NoError(t, s.Close())
	require.True(t, next.closed.Load())
}

// A service ends within its time whatever two photos in work do.
func TestEndsUnderLoad(t *testing.T) {
	never, inWork := make(chan struct{}), make(chan struct{}, 2)
	defer close(never)
	f := &fake{stuck: never, tag: func(context.Context, []byte) ([]model.Label, error) {
		inWork <- struct{}{}
		<-never
		return nil, errors.New("ended")
	}}
	s, err := New(Options{Runs: t.TempDir(), Data: t.TempDir()})
	require.NoError(t, err)
	require.LessOrEqual(t, s.shutdownTime+s.closeTime, 24*time.Second)
	s.model, s.shutdownTime, s.closeTime = &served{tagger: f, run: "fake"}, 200*time.Millisecond, 100*time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, l) }()
	for range 2 {
		go func() { _, _ = http.Post("http://"+l.Addr().String()+"/tag", "image/jpeg", strings.NewReader("x")) }()
		<-inWork
	}
	cancel()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.DeadlineExceeded)
	case <-time.After(10 * time.Second):
		t.Fatal("it still runs")
	}
}

// 200 clients of all manners at once: whole, broken, cut and slow requests. Each gets its answer, and nothing is left
// of them.
func TestMixedClients(t *testing.T) {
	f := &fake{tag: func(_ context.Context, b []byte) ([]model.Label, error) {
		return []model.Label{{Name: fmt.Sprint(len(b))}}, nil
	}}
	s, srv := fakeService(t, Options{Bodies: 4}, f)
	s.bodyTime = 2 * time.Second
	before := runtime.NumGoroutine()
	addr := srv.addr
	raw := func(text string, hold time.Duration) string {
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer c.Close()
		_, _ = io.WriteString(c, text)
		if hold > 0 {
			time.Sleep(hold)
			return ""
		}
		require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
		line, _ := bufio.NewReader(c).ReadString('\n')
		return line
	}
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	for i := range 200 {
		wg.Go(func() {
			switch i % 8 {
			case 0:
				require.Contains(t, raw("POST /tag HTTP/1.1\r\nHost: localhost\r\nContent-Length: nonsense\r\n\r\n", 0), "400")
			case 1:
				require.Contains(t, raw("POST /tag HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 200<<10)+"\r\n\r\n", 0), "431")
			case 2:
				raw("POST /tag HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nabc", 50*time.Millisecond)
			case 3:
				raw("POST /ta", 50*time.Millisecond)
			case 4:
				require.Contains(t, raw("PUT /tag HTTP/1.1\r\nHost: localhost\r\n\r\n", 0), "405")
			default:
				body := strings.Repeat("x", 1000*i)
				res, err := client.Post(srv.URL+"/tag", "image/jpeg", strings.NewReader(body))
				require.NoError(t, err)
				defer res.Body.Close()
				var got tagged
				require.NoError(t, json.NewDecoder(res.Body).Decode(&got))
				require.Equal(t, fmt.Sprint(len(body)), got.Labels[0].Name)
			}
		})
	}
	wg.Wait()
	client.CloseIdleConnections()
	require.Eventually(t, func() bool { return len(s.bodies) == 0 && runtime.NumGoroutine() <= before+4 }, 10*time.Second, 20*time.Millisecond, "%d goroutines, %d before", runtime.NumGoroutine(), before)
	require.NoError(t, s.Close())
}

// serviceOnDrawn runs a service over a data set of drawn pictures until the test ends.
func serviceOnDrawn(t *testing.T) (Options, client) {
	t.Helper()
	o := Options{Data: filepath.Join(t.TempDir(), "sets"), Runs: filepath.Join(t.TempDir(), "runs")}
	drawn(t, filepath.Join(o.Data, "set"), 20)
	s, err := New(o)
	require.NoError(t, err)
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		srv.Close()
	})
	return o, client{t, srv.URL}
}

// The answers about a training have one case, its seed is the command's, and no folder of the service's stands in them.
func TestTrainingAnswers(t *testing.T) {
	o, c := serviceOnDrawn(t)
	body := strings.Replace(fmt.Sprintf(short, "a", 1), `, "seed": 1`, "", 1)
	require.Equal(t, http.StatusAccepted, c.ask("POST", "/train", body, nil))
	c.until("a", ended)
	_, text := request(t, "GET", c.url+"/train/a", nil)
	require.Contains(t, text, `"phase":"`)
	require.Contains(t, text, `"images_per_sec":`)
	require.NotRegexp(t, `"[A-Z][a-zA-Z]*":`, text)
	require.NotContains(t, text, o.Data)
	require.NotContains(t, text, o.Runs)
	settings, err := rundir.Read(filepath.Join(o.Runs, "a"))
	require.NoError(t, err)
	require.EqualValues(t, 1200, settings.Run.Seed)
}

// Photos as phones write them have the labels of what Pillow's exif_transpose makes of them.
func TestOrientation(t *testing.T) {
	_, c := serviceOnDrawn(t)
	require.Equal(t, http.StatusAccepted, c.ask("POST", "/train", fmt.Sprintf(short, "a", 1), nil))
	c.until("a", ended)
	require.Equal(t, http.StatusOK, c.ask("POST", "/model/a", "", nil))
	tag := func(photo []byte) (got tagged) {
		res, err := http.Post(c.url+"/tag", "image/jpeg", bytes.NewReader(photo))
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.NoError(t, json.NewDecoder(res.Body).Decode(&got))
		return got
	}
	for _, p := range exiftest.OfPhones(t) {
		require.Equal(t, tag(upright.PNG(t, p)).Labels, tag(p.Data).Labels, p.Name)
	}
}
