package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/torch"
)

// serveCUDA reads "NAME DTYPE BATCH graphs|eager iterations" lines and answers with seconds per call of the image tower, pictures on the card, features on the CPU.
// bench/peers/clip_cuda.py alternates it with PyTorch.
func serveCUDA(device string) error {
	n, err := strconv.Atoi(device)
	if err != nil {
		return err
	}
	models, inputs := map[string]*clip.Model{}, map[string]*torch.Tensor{}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		f := strings.Fields(in.Text())
		if len(f) != 5 {
			return fmt.Errorf("%q: want NAME DTYPE BATCH graphs|eager iterations", in.Text())
		}
		batch, err := strconv.Atoi(f[2])
		if err != nil {
			return err
		}
		iterations, err := strconv.Atoi(f[4])
		if err != nil {
			return err
		}
		key := f[0] + f[1] + f[3]
		m := models[key]
		if m == nil {
			o := clip.Options{DType: dtypes[f[1]], Batch: 1024, Device: torch.CUDA(n)}
			if f[3] == "eager" {
				o.Graphs = -1
			}
			if m, err = randomWith(f[0], o); err != nil {
				return err
			}
			models[key] = m
		}
		x := inputs[key+f[2]]
		if x == nil {
			h, w := m.ImageSize()
			if err := torch.Try(func() { x = torch.Randn(torch.S(batch, 3, h, w)).ToDevice(torch.CUDA(n)).ToDType(m.DType()) }); err != nil {
				return err
			}
			inputs[key+f[2]] = x
		}
		start := time.Now()
		for range iterations {
			y, err := m.EncodeImage(context.Background(), x) // ends when the features are here
			if err != nil {
				return err
			}
			y.Free()
		}
		fmt.Println(time.Since(start).Seconds() / float64(iterations))
	}
	return in.Err()
}
