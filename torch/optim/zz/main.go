package main

import (
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

func main() {
	torch.SetNumThreads(1)
	torch.Do(func() error {
		torch.ManualSeed(0)
		mk := func() nn.Sequential {
			return nn.Sequential{nn.NewLinear(784, 128), nn.ReLU{}, nn.NewLinear(128, 128), nn.ReLU{}, nn.NewLinear(128, 10)}
		}
		x, y := torch.Randn(torch.S(64, 784)), torch.Randint(0, 10, torch.S(64))
		cases := map[string]func(){}
		add := func(name string, f func(nn.Sequential) optim.Optimizer) {
			m := mk()
			o := f(m)
			cases[name] = func() {
				torch.Scope(func(*torch.Arena) {
					o.ZeroGrad()
					m.Forward(x).CrossEntropyLoss(y, nil, 1).Backward()
					o.Step()
				})
			}
		}
		add("sgd", func(m nn.Sequential) optim.Optimizer { return optim.NewSGD(nn.Parameters(m), optim.LR(0.01)) })
		add("adamw", func(m nn.Sequential) optim.Optimizer { return optim.NewAdamW(nn.Parameters(m)) })
		if len(os.Args) > 1 {
			m := mk()
			cases["fwd nograd"] = func() { torch.Scope(func(*torch.Arena) { torch.NoGrad(func() { m.Forward(x) }) }) }
			cases["fwd"] = func() { torch.Scope(func(*torch.Arena) { m.Forward(x).CrossEntropyLoss(y, nil, 1) }) }
			cases["fwd bwd"] = func() {
				torch.Scope(func(*torch.Arena) {
					torch.ZeroGrad(nn.Parameters(m), false)
					m.Forward(x).CrossEntropyLoss(y, nil, 1).Backward()
				})
			}
			ps := nn.Parameters(m)
			d2, d1, d0 := torch.Randn(torch.S(64, 10)), torch.Randn(torch.S(64, 128)), torch.Randn(torch.S(64, 128))
			h := torch.Randn(torch.S(64, 128))
			for _, p := range ps { p.SetRequiresGrad(false) }
			wt0, wt1, wt2 := ps[0].T(), ps[2].T(), ps[4].T()
			d0t, d1t, d2t := d0.T(), d1.T(), d2.T()
			for _, p := range ps { p.SetRequiresGrad(true) }
			cases["gemm"] = func() {
				torch.Scope(func(*torch.Arena) {
					torch.NoGrad(func() {
						ps[1].Addmm(x, wt0); ps[3].Addmm(h, wt1); ps[5].Addmm(h, wt2)
						d2.Mm(ps[4]); d1.Mm(ps[2])
						d2t.Mm(h); d1t.Mm(h); d0t.Mm(x)
					})
				})
			}
			o := optim.NewSGD(nn.Parameters(m)); cases["fwd bwd"](); 
			cases["opt sgd"] = func() { o.Step() }
			o2 := optim.NewAdamW(nn.Parameters(m),optim.LR(1e-9))
			cases["opt adamw"] = func() { o2.Step() }
		}
		var names []string
		for n, f := range cases {
			names = append(names, n)
			for range 10 {
				f()
			}
		}
		sort.Strings(names)
		best := map[string]float64{}
		med := map[string][]float64{}
		for range 60 {
			for _, n := range names {
				f := cases[n]
				t := time.Now()
				for range 20 {
					f()
				}
				d := time.Since(t).Seconds() / 20 * 1e6
				med[n] = append(med[n], d)
				if best[n] == 0 || d < best[n] {
					best[n] = d
				}
			}
		}
		for _, n := range names {
			sort.Float64s(med[n])
			fmt.Printf("%s best %.1f median %.1f\n", n, best[n], med[n][len(med[n])/2])
		}
		return nil
	})
}
