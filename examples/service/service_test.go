package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/spml/model"
)

// drawn writes n drawn pictures as a data set and gives one of them.
func drawn(t *testing.T, dir string, n int) (photo []byte) {
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "images"), 0o755))
	ds, err := shapes.New(7, n, 0, 0)
	require.NoError(t, err)
	r, err := ds.Source.NewReader(data.ReadOptions{})
	require.NoError(t, err)
	defer r.Close()
	labels := "filename," + strings.Join(ds.Classes, ",") + "\n"
	split := "filename,split\n"
	rgb := make([]byte, 64*64*3)
	for i := range n {
		require.NoError(t, r.Read(i, 64, 64, rgb))
		m := image.NewRGBA(image.Rect(0, 0, 64, 64))
		for p := range 64 * 64 {
			copy(m.Pix[4*p:], rgb[3*p:3*p+3])
			m.Pix[4*p+3] = 255
		}
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, m))
		photo = b.Bytes()
		name := fmt.Sprintf("%03d.png", i)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "images", name), photo, 0o644))
		labels += name
		for _, y := range ds.LabelRow(i) {
			labels += fmt.Sprintf(",%d", y)
		}
		labels += "\n"
		split += name + "," + []string{"train", "train", "train", "val", "test"}[i%5] + "\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "labels.csv"), []byte(labels), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "split.csv"), []byte(split), 0o644))
	return photo
}

// client asks a service.
type client struct {
	t   *testing.T
	url string
}

func (c client) ask(method, path, body string, into any) int {
	c.t.Helper()
	r, err := http.NewRequest(method, c.url+path, strings.NewReader(body))
	require.NoError(c.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(c.t, err)
	defer res.Body.Close()
	if into != nil {
		require.NoError(c.t, json.NewDecoder(res.Body).Decode(into))
	}
	return res.StatusCode
}

// until waits for a state of a training.
func (c client) until(name string, ok func(Status) bool) (s Status) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		s = Status{}
		require.Equal(c.t, http.StatusOK, c.ask("GET", "/train/"+name, "", &s))
		return ok(s)
	}, time.Minute, 10*time.Millisecond)
	return s
}

type tagged struct {
	Model  string
	Labels []model.Label
	Error  string
}

const (
	short = `{"name": "%s", "data": "set", "method": "em", "backbone": "small_cnn", "image_size": 64, "epochs": 2, "batch_size": 16, "lr": 0.001, "seed": %d}`
	long  = `{"name": "%s", "data": "set", "method": "an", "backbone": "small_cnn", "image_size": 64, "epochs": 100000, "batch_size": 4, "lr": 0.001}`
)

func ended(s Status) bool { return s.State != running }

func stepped(s Status) bool { return s.Step.Phase == "train" && s.Step.Done > 0 }

func TestService(t *testing.T) {
	o := Options{Data: filepath.Join(t.TempDir(), "sets"), Runs: filepath.Join(t.TempDir(), "runs"), Workers: 2}
	photo := string(drawn(t, filepath.Join(o.Data, "set"), 30))
	s, err := New(o)
	require.NoError(t, err)
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	c := client{t, srv.URL}

	var got tagged
	require.Equal(t, http.StatusOK, c.ask("GET", "/healthz", "", nil))
	require.Equal(t, http.StatusServiceUnavailable, c.ask("POST", "/tag", photo, &got))
	require.Contains(t, got.Error, "no model yet")

	for i, name := range []string{"a", "b"} {
		require.Equal(t, http.StatusAccepted, c.ask("POST", "/train", fmt.Sprintf(short, name, i), nil))
		st := c.until(name, ended)
		require.Equal(t, done, st.State, st.Error)
		require.Len(t, st.Epochs, 2)
		require.NotEmpty(t, st.Notes)
	}
	require.Equal(t, http.StatusOK, c.ask("POST", "/model/a", "", nil))

	want := map[string][]model.Label{}
	for _, name := range []string{"a", "b"} {
		tagger, err := model.OpenTagger(filepath.Join(o.Runs, name), model.TaggerOptions{Workers: 1})
		require.NoError(t, err)
		want[name], err = tagger.Tag(context.Background(), []byte(photo))
		require.NoError(t, err)
		require.NoError(t, tagger.Close())
	}
	require.NotEqual(t, want["a"], want["b"])

	// Photos are tagged while the model is changed; each answer is one model's.
	var wg sync.WaitGroup
	answers := make(chan tagged, 80)
	for range 8 {
		wg.Go(func() {
			for range 10 {
				res, err := http.Post(c.url+"/tag", "image/png", strings.NewReader(photo))
				var x tagged
				if err == nil {
					err = json.NewDecoder(res.Body).Decode(&x)
					res.Body.Close()
				}
				if err != nil {
					x.Error = err.Error()
				}
				answers <- x
			}
		})
	}
	for _, name := range []string{"b", "a", "b"} {
		require.Equal(t, http.StatusOK, c.ask("POST", "/model/"+name, "", nil))
	}
	wg.Wait()
	close(answers)
	for x := range answers {
		require.Empty(t, x.Error)
		require.Equal(t, want[x.Model], x.Labels)
	}
	got = tagged{}
	require.Equal(t, http.StatusOK, c.ask("POST", "/tag", photo, &got))
	require.Equal(t, tagged{Model: "b", Labels: want["b"]}, got)

	for name, x := range map[string]struct {
		method, path, body string
		status             int
		want               string
	}{
		"no photo":      {"POST", "/tag", "text", http.StatusUnprocessableEntity, ""},
		"half a photo":  {"POST", "/tag", photo[:len(photo)/2], http.StatusUnprocessableEntity, ""},
		"large photo":   {"POST", "/tag", strings.Repeat("x", maxPhoto+1), http.StatusRequestEntityTooLarge, ""},
		"outside":       {"POST", "/train", `{"name": "c", "data": "../set", "method": "an"}`, http.StatusBadRequest, "no name of a data set"},
		"no data":       {"POST", "/train", `{"name": "c", "data": "none", "method": "an"}`, http.StatusNotFound, "no data set"},
		"no method":     {"POST", "/train", `{"name": "c", "data": "set", "method": "x"}`, http.StatusBadRequest, "there are"},
		"no setting":    {"POST", "/train", `{"nme": "c"}`, http.StatusBadRequest, "nme"},
		"same name":     {"POST", "/train", fmt.Sprintf(short, "a", 1), http.StatusConflict, "already holds a run"},
		"no training":   {"GET", "/train/none", "", http.StatusNotFound, "no training"},
		"no run":        {"POST", "/train/none/resume", "", http.StatusNotFound, "no run"},
		"name of model": {"POST", "/model/..%2Fx", "", http.StatusBadRequest, "no name of a run"},
		"no model":      {"POST", "/model/none", "", http.StatusNotFound, `there is no run "none" with a model`},
		"large request": {"POST", "/train", `{"name": "` + strings.Repeat("x", maxSettings), http.StatusRequestEntityTooLarge, ""},
	} {
		got = tagged{}
		require.Equal(t, x.status, c.ask(x.method, x.path, x.body, &got), name)
		require.NotEmpty(t, got.Error, name)
		require.Contains(t, got.Error, x.want, name)
		require.NotContains(t, got.Error, o.Runs, "no paths")
		require.NotContains(t, got.Error, o.Data, "no paths")
	}

	// One training at a time; it can be stopped and goes on.
	require.Equal(t, http.StatusAccepted, c.ask("POST", "/train", fmt.Sprintf(long, "long"), nil))
	c.until("long", stepped)
	got = tagged{}
	require.Equal(t, http.StatusConflict, c.ask("POST", "/train", fmt.Sprintf(short, "c", 1), &got))
	require.Contains(t, got.Error, "long is being trained")
	require.Equal(t, http.StatusAccepted, c.ask("DELETE", "/train/long", "", nil))
	first := c.until("long", ended)
	require.Equal(t, stopped, first.State)
	require.Contains(t, first.Error, "checkpoint")
	require.Equal(t, http.StatusAccepted, c.ask("POST", "/train/long/resume", "", nil))
	again := c.until("long", stepped)
	require.GreaterOrEqual(t, again.Step.Epoch, first.Step.Epoch)
	require.NoError(t, s.Close())
	require.Equal(t, stopped, c.until("long", ended).State)
	require.Equal(t, http.StatusServiceUnavailable, c.ask("POST", "/train/long/resume", "", nil))
	require.Equal(t, http.StatusServiceUnavailable, c.ask("POST", "/tag", photo, nil))
}

// TestShutdown ends a service in the middle of a training: it leaves a checkpoint, from which another service goes on.
func TestShutdown(t *testing.T) {
	o := Options{Data: filepath.Join(t.TempDir(), "sets"), Runs: filepath.Join(t.TempDir(), "runs")}
	drawn(t, filepath.Join(o.Data, "set"), 20)
	serving := func() (c client, end func() error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- serve(ctx, l, o) }()
		return client{t, "http://" + l.Addr().String()}, func() error { cancel(); return <-ended }
	}
	c, end := serving()
	require.Equal(t, http.StatusAccepted, c.ask("POST", "/train", fmt.Sprintf(long, "x"), nil))
	c.until("x", func(s Status) bool { return len(s.Epochs) > 1 })
	require.NoError(t, end())

	c, end = serving()
	require.Equal(t, http.StatusAccepted, c.ask("POST", "/train/x/resume", "", nil))
	s := c.until("x", stepped)
	require.Greater(t, s.Step.Epoch, 1, "from the checkpoint, not from the start")
	require.NoError(t, end())

	o.Model = "none"
	_, end = serving()
	require.ErrorContains(t, end(), "no saved model")
}
