// Command grid trains the demo's methods on shapes over one grid of learning rates for all and writes the table that the
// demo's rates come from: for each method the rate with the highest validation mAP, mean over seeds that the demo does not use.
//
//	go run ./bench/grid results/shapes_grid.csv
package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/train"
)

var (
	methods = []string{"bce", "em", "an"}
	rates   = []float64{1e-3, 3e-3, 1e-2}
	seeds   = []uint32{101, 102}
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("grid: ")
	if len(os.Args) != 2 {
		log.Fatal("usage: grid OUT.csv")
	}
	rows := [][]string{{"method", "lr", "seed", "best_epoch", "val_map", "chosen"}}
	for _, method := range methods {
		var own [][]string
		best, bestRate := -1.0, ""
		for _, lr := range rates {
			rate, mean := strconv.FormatFloat(lr, 'g', -1, 64), 0.0
			for _, seed := range seeds {
				res, err := train.Run(context.Background(), config.Config{
					Data:   config.Data{Path: config.Shapes},
					Method: config.Method{ID: method},
					Optim:  config.Optim{LR: lr},
					Run:    config.Run{Seed: seed},
				}, train.RunOptions{})
				if err != nil {
					log.Fatal(err)
				}
				mean += res.Best.ValMAP / float64(len(seeds))
				own = append(own, []string{method, rate, fmt.Sprint(seed), fmt.Sprint(res.Best.Epoch), fmt.Sprintf("%.2f", res.Best.ValMAP), ""})
			}
			fmt.Printf("%s lr %s: val mAP %.2f\n", method, rate, mean)
			if mean > best {
				best, bestRate = mean, rate
			}
		}
		for _, r := range own {
			if r[1] == bestRate {
				r[5] = "yes"
			}
		}
		rows = append(rows, own...)
	}
	f, err := os.Create(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := csv.NewWriter(f).WriteAll(rows); err != nil {
		log.Fatal(err)
	}
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
}
