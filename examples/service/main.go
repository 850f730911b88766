// Command service is an HTTP service that tags photos and trains models, an example of spml/train inside a program.
//
//	go run ./examples/service --data sets --runs runs --model em
//
//	curl --data-binary @photo.jpg localhost:8080/tag
//	curl -d '{"name": "em", "data": "birds", "method": "em", "epochs": 5}' localhost:8080/train
//	curl localhost:8080/train/em
//	curl -X DELETE localhost:8080/train/em          stops it with a checkpoint
//	curl -X POST localhost:8080/train/em/resume
//	curl -X POST localhost:8080/model/em            tags with the model of this run from now on
//
// It has no accounts: put it behind something that does. SIGINT and SIGTERM end it once the requests in work are answered; a training in work
// leaves a checkpoint.
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
	"syscall"
	"time"

	"github.com/gospml/gospml/spml/train"
)

func main() {
	var o Options
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	flag.StringVar(&o.Data, "data", "data", "folder of the data sets that may be trained on")
	flag.StringVar(&o.Runs, "runs", "runs", "folder of the runs")
	flag.StringVar(&o.Model, "model", "", "run whose model tags photos at first")
	flag.IntVar(&o.Workers, "workers", 0, "photos that are tagged at once (0: one a core)")
	flag.StringVar(&o.Device, "device", train.DeviceAuto, "where to tag and train: auto (a graphics card where there is one), cpu, cuda or cuda:N")
	flag.Parse()
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

// shutdownTime is how long requests in work may take after a signal.
const shutdownTime = 20 * time.Second

// serve answers requests until ctx ends, and then lets those in work finish.
func serve(ctx context.Context, l net.Listener, o Options) error {
	s, err := New(o)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	srv := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err = <-ended: // the listener failed
		return errors.Join(err, s.Close())
	case <-ctx.Done():
	}
	s.StopTraining() // its checkpoint is written while the requests finish
	late, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	err = srv.Shutdown(late)
	if err != nil {
		err = errors.Join(err, srv.Close())
	}
	return errors.Join(err, s.Close())
}
