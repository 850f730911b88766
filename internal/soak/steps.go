package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
)

// Growth that is taken for noise: memory of the last quarter of the steps over that of the second, and live tensors.
const (
	stepGrowth   = 24 << 20
	tensorGrowth = 64
	wantedSteps  = 5000
)

// steps trains one process for 5,000 steps, or as many as fit into the time, and looks at the slope of its memory.
func steps(j *job) error {
	cmd := exec.Command(self(), fmt.Sprint(max(4, time.Until(j.end).Seconds())), j.data)
	cmd.Env = append(os.Environ(), mode+"=steps")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, tail(errs.String(), 2000))
	}
	var n, live int
	var early, late float64
	if _, err := fmt.Sscan(out.String(), &n, &early, &late, &live); err != nil {
		return fmt.Errorf("%w: %s", err, out.String())
	}
	j.did("%d steps, %+.1f MB between the second and the last quarter (%.0f MB), %+d live tensors", n, (late-early)/(1<<20), late/(1<<20), live)
	if late-early > stepGrowth {
		j.lose("memory grows with the steps of training: %.1f MB in half of %d steps", (late-early)/(1<<20), n)
	}
	if live > tensorGrowth {
		j.lose("live tensors grow with the steps of training: %d in half of %d steps", live, n)
	}
	return nil
}

func stepsChild() int {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds*float64(time.Second)))
	defer cancel()
	var memory []float64
	var live []int
	c := config.Config{
		Data:     config.Data{Path: os.Args[2], ImageSize: 32},
		Method:   config.Method{ID: "role"},
		Model:    config.Model{Backbone: "small_cnn"},
		Optim:    config.Optim{BatchSize: 4, LR: 1e-4},
		Schedule: config.Schedule{Epochs: wantedSteps},
		Run:      config.Run{MaxSteps: wantedSteps},
	}
	_, err := train.Run(ctx, c, train.RunOptions{Events: train.Events{Step: func(s train.Step) {
		if s.Phase == "train" {
			memory = append(memory, resident("self"))
			live = append(live, int(torch.Live()))
		}
	}}})
	var stopped *train.StoppedError
	if err != nil && !errors.As(err, &stopped) && !errors.Is(err, context.DeadlineExceeded) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	n := len(memory)
	if n < 16 {
		fmt.Fprintf(os.Stderr, "%d steps in %.0f s are too few\n", n, seconds)
		return 1
	}
	// Tensors of a batch come and go within a step: like is compared with like.
	fmt.Println(n, mean(memory[n/4:n/2]), mean(memory[3*n/4:]), int(mean(live[3*n/4:])-mean(live[n/4:n/2])))
	return 0
}

func mean[T int | float64](x []T) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v)
	}
	return sum / float64(len(x))
}

// resident is the memory of a process in bytes.
func resident(pid string) float64 {
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb * 1024
		}
	}
	return 0
}
