// Command service is an HTTP service that tags photos and trains models, an example of spml/train inside a program.
//
//	go run ./examples/service --data sets --runs runs --model em
//
//	curl --data-binary @photo.jpg localhost:8080/tag
//	curl --json '{"name": "em", "data": "birds", "method": "em", "epochs": 5}' localhost:8080/train
//	curl localhost:8080/train/em
//	curl -X DELETE localhost:8080/train/em          stops it with a checkpoint
//	curl -X POST localhost:8080/train/em/resume
//	curl -X POST localhost:8080/model/em            tags with the model of this run from now on
//
// A training without "seed" has seed 1200, as spml train has.
//
// It has no accounts: put it behind something that does. Web pages of other sites cannot use it (Origin and
// Sec-Fetch-Site are checked, and on a loopback address the Host too), a photo's bytes are read once there is room for
// them, one model is loaded at a time, and answers name no paths. SIGINT and SIGTERM end it once the requests in work
// are answered, after 25 seconds in any case; a training in work leaves a checkpoint.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gospml/gospml/spml/config"
)

func main() {
	var o Options
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	flag.StringVar(&o.Data, "data", "data", "folder of the data sets that may be trained on")
	flag.StringVar(&o.Runs, "runs", "runs", "folder of the runs")
	flag.StringVar(&o.Model, "model", "", "run whose model tags photos at first")
	flag.IntVar(&o.Workers, "workers", 0, "photos that are tagged at once (0: one a core)")
	flag.StringVar(
		&o.Device,
		"device",
		config.DeviceAuto,
		"where to tag and train: auto (a graphics card where there is one), cpu, cuda or cuda:N",
	)
	hosts := flag.String(
		"hosts",
		"",
		"names with commas between under which clients may call a service on a loopback address, beside localhost",
	)
	flag.StringVar(
		&o.EXIF,
		"exif",
		"",
		"orientation of photos: apply or ignore (default: what the model was trained with)",
	)
	flag.Int64Var(&o.MaxPixels, "max-pixels", 0, "photos of more pixels are refused (0: 64 megapixels)")
	flag.Parse()
	o.Hosts = strings.FieldsFunc(*hosts, func(r rune) bool { return r == ',' })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := net.Listen("tcp", *addr)
	if err == nil {
		log.Printf("listening on http://%s", l.Addr())
		err = serve(ctx, l, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

// Times after a signal: for the requests in work, and for the training's checkpoint and the photos that are still in
// work then. What has not ended after both ends with the process.
const (
	shutdownTime = 15 * time.Second
	closeTime    = 8 * time.Second
)

// serve answers requests until ctx ends, and then lets those in work finish.
func serve(ctx context.Context, l net.Listener, o Options) error {
	s, err := New(o)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return s.serve(ctx, l)
}

func (s *Service) serve(ctx context.Context, l net.Listener) (err error) {
	srv := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 3 * time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err = <-ended: // the listener failed
	case <-ctx.Done():
		s.StopTraining() // its checkpoint is written while the requests finish
		late, cancel := context.WithTimeout(context.Background(), s.shutdownTime)
		defer cancel()
		if err = srv.Shutdown(late); err != nil {
			err = errors.Join(fmt.Errorf("requests were still in work: %w", err), srv.Close())
		}
	}
	late, cancel := context.WithTimeout(context.Background(), s.closeTime)
	defer cancel()
	return errors.Join(err, s.CloseContext(late))
}
