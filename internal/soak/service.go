package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// What the example service does at most, and may grow by.
const (
	wantedRequests = 10_000
	swapEvery      = 150
	serviceGrowth  = 96 << 20
)

// service tags photos over HTTP while models are swapped: each answer is that of the model it names, memory does not
// grow, and SIGTERM ends it.
func service(j *job) error {
	runs := filepath.Join(j.dir, "runs")
	for i, name := range []string{"a", "b"} {
		cmd, said := spml(nil, "train", "--data", j.data, "--method", "an", "--backbone", "small_cnn", "--image-size", "32", "--batch-size", "8", "--epochs", "1", "--seed", fmt.Sprint(i), "--progress", "off", "--run", filepath.Join(runs, name))
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
	}
	cmd := exec.Command(j.service, "-addr", "127.0.0.1:0", "-runs", runs, "-data", j.dir, "-model", "a")
	log := &syncBuffer{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	url, err := address(log, ended)
	if err != nil {
		return err
	}
	photos, err := filepath.Glob(filepath.Join(j.data, "images", "*.png"))
	if err != nil {
		return err
	}
	photos = photos[:8]
	want := map[string]string{}
	for _, model := range []string{"b", "a"} {
		if _, err := post(url+"/model/"+model, nil); err != nil {
			return err
		}
		for _, p := range photos {
			got, err := tag(url, p)
			if err != nil {
				return err
			}
			want[got.Model+p] = string(got.Labels)
		}
	}

	pid := strconv.Itoa(cmd.Process.Pid)
	var requests, swaps, wrong, failed atomic.Int64
	first := atomic.Value{}
	var early float64
	var wg sync.WaitGroup
	stop := time.Until(j.end)
	end := time.Now().Add(max(stop, 3*time.Second))
	for w := range 4 {
		wg.Go(func() {
			for i := w; time.Now().Before(end); i++ {
				n := requests.Add(1)
				if n > wantedRequests {
					requests.Add(-1)
					return
				}
				if n%swapEvery == 0 {
					if _, err := post(url+"/model/"+[]string{"a", "b"}[n/swapEvery%2], nil); err == nil {
						swaps.Add(1)
					} else if !errors.Is(err, errBusy) {
						failed.Add(1)
						first.CompareAndSwap(nil, err.Error())
					}
				}
				p := photos[i%len(photos)]
				got, err := tag(url, p)
				switch {
				case err != nil:
					failed.Add(1)
					first.CompareAndSwap(nil, err.Error())
				case want[got.Model+p] != string(got.Labels):
					wrong.Add(1)
				}
				if n == 200 {
					early = resident(pid)
				}
			}
		})
	}
	wg.Wait()
	if early == 0 {
		early = resident(pid)
	}
	grown := resident(pid) - early
	j.did("%d requests, %d swaps of the model, %+.1f MB since the 200th", requests.Load(), swaps.Load(), grown/(1<<20))
	if failed.Load() > 0 || wrong.Load() > 0 {
		j.lose("%d requests failed (first: %v), %d had another model's answer", failed.Load(), first.Load(), wrong.Load())
	}
	if grown > serviceGrowth {
		j.lose("the service grew by %.0f MB in %d requests and %d swaps", grown/(1<<20), requests.Load(), swaps.Load())
	}
	start := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-ended:
		if err != nil {
			j.lose("the service ended with %v: %s", err, log)
		}
	case <-time.After(25 * time.Second):
		j.lose("the service still runs %v after SIGTERM", time.Since(start).Round(time.Second))
	}
	return nil
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

var listening = regexp.MustCompile(`listening on (http://\S+)`)

func address(log fmt.Stringer, ended chan error) (string, error) {
	for range 600 {
		select {
		case err := <-ended:
			return "", fmt.Errorf("the service ended: %v: %s", err, log)
		case <-time.After(50 * time.Millisecond):
		}
		if m := listening.FindStringSubmatch(log.String()); m != nil {
			return m[1], nil
		}
	}
	return "", fmt.Errorf("the service does not listen: %s", log)
}

type answer struct {
	Model  string
	Labels json.RawMessage
}

// errBusy is the answer while another model is being loaded.
var errBusy = errors.New("busy")

func post(url string, body []byte) ([]byte, error) {
	res, err := http.Post(url, "image/png", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusServiceUnavailable:
		return nil, fmt.Errorf("%w: %s", errBusy, b)
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", res.Status, b)
	}
	return b, nil
}

func tag(url, photo string) (a answer, err error) {
	b, err := os.ReadFile(photo)
	if err == nil {
		b, err = post(url+"/tag", b)
	}
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	return a, err
}
