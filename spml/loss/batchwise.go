package loss

import "github.com/gospml/gospml/torch"

// The fused forms of losses with batch-wide terms. Their operators take (tensors…, numbers…, log_eps, reduction, rows).

// batchwise is such a form: tensors gives the operator's tensors, the logits first, numbers its parameters; gradients is how many tensors it
// has gradients for. report, if not nil, computes the loss's named parts for a batch that asks for them, given its value.
func batchwise(op string, gradients int, tensors func(b *Batch) []*torch.Tensor, numbers func(v Values) func(b *Batch) []float64,
	report func(v Values, o Options) func(b *Batch, value *torch.Tensor)) *FusedForm {
	record, forward := torch.NewOperator("spml::"+op, ""), torch.NewOperator("spml::"+op+"_fwd", "")
	return &FusedForm{Op: "spml::" + op, New: func(v Values, o Options) Pass {
		of := numbers(v)
		parts := func(*Batch, *torch.Tensor) {}
		if report != nil {
			parts = report(v, o)
		}
		fill := func(c *torch.OperatorCall, b *Batch) {
			for _, t := range tensors(b) {
				c.Tensor(t)
			}
			for _, x := range of(b) {
				c.Float(x)
			}
			c.Float(o.LogEps)
			c.Int(o.Reduction.code())
			c.Tensor(b.Rows)
		}
		tell := func(b *Batch, value *torch.Tensor) {
			if b.Report != nil {
				torch.NoGrad(func() { parts(b, value) })
			}
		}
		return Pass{
			Value: func(b *Batch) *torch.Tensor {
				c := record.Begin()
				fill(&c, b)
				value := c.One()
				tell(b, value)
				return value
			},
			ValueGrad: func(b *Batch) (value, grad *torch.Tensor) {
				c := forward.Begin()
				fill(&c, b)
				if gradients == 1 {
					value, grad = c.Two()
				} else {
					value, grad, _ = c.Three()
				}
				tell(b, value)
				return value, grad
			},
		}
	}}
}

// withoutRows is a copy of the batch without the rows that do not count, for reports.
func (b *Batch) withoutRows() *Batch {
	c := *b
	if c.Rows != nil {
		c.dropRows()
	}
	return &c
}

// reportRegularised reports main and reg of value = main + weight·reg, reg = R_k(p).
func reportRegularised(b *Batch, value *torch.Tensor, k, weight float64) {
	c := b.withoutRows()
	reg := countRegulariser(c.Z(), c.Observed, k)
	b.report("main", value.Sub(reg.MulScalar(weight)))
	b.report("reg", reg)
}

func observedAndPseudo(b *Batch) []*torch.Tensor {
	return []*torch.Tensor{b.Logits, b.Observed, b.Pseudo}
}

// fusedLargeLoss is the fused form of ll-r (correct = false), ll-ct and ll-cp (permanent).
func fusedLargeLoss(correct, permanent bool) *FusedForm {
	return &FusedForm{Op: "spml::large_loss", New: func(v Values, o Options) Pass {
		semantics := v.whole("semantics")
		flips := permanent && semantics != Released
		count := func(b *Batch) int {
			if k := v.whole("k"); k >= 0 {
				return k
			}
			return LargeLossCount(b.Epoch, b.Logits.Numel(), v["delta_rel"], flips, semantics)
		}
		return largeLossPass(correct, semantics, count, o, func(b *Batch, marks *torch.Tensor) {
			k := min(count(b), b.Logits.Numel())
			modified, flipped := marks.GtScalar(0), marks.EqScalar(2)
			if semantics == BoostLU {
				flipped = modified
			}
			if semantics != Recommended && k > 0 {
				z := b.Z()
				u := torch.Where(b.Observed.EqScalar(1), Positive(z, o.LogEps), Negative(z, o.LogEps))
				u = u.Mul(mask(b.Observed.EqScalar(0), z))
				top, _ := u.Flatten(0, -1).Topk(k, 0, true, true)
				b.report("threshold", top.Select(0, k-1))
			}
			if count(b) > 0 {
				b.report("corrections", flipped)
			}
			if !flips {
				flipped = flipped.ZerosLike()
			}
			b.report("modified", modified)
			b.report("permanent_flips", flipped)
		})
	}}
}

// largeLossPass is the selection with a batch's count k. report gets what is selected [B, C], as the operator marks it.
func largeLossPass(correct bool, semantics int, count func(b *Batch) int, o Options,
	report func(b *Batch, marks *torch.Tensor)) Pass {
	record, forward := torch.NewOperator("spml::large_loss", ""), torch.NewOperator("spml::large_loss_fwd", "")
	fill := func(c *torch.OperatorCall, b *Batch) {
		c.Tensor(b.Logits)
		c.Tensor(b.Observed)
		c.Int(count(b))
		c.Bool(correct)
		c.Bool(semantics != Recommended)
		c.Bool(b.Report != nil)
		c.Float(o.LogEps)
		c.Int(o.Reduction.code())
	}
	tell := func(b *Batch, marks *torch.Tensor) {
		if b.Report == nil {
			return
		}
		torch.NoGrad(func() { report(b, marks) })
	}
	return Pass{
		Value: func(b *Batch) *torch.Tensor {
			if b.Rows != nil { // k and the selection are those of the rows that count
				b = b.withoutRows()
				if b.Logits.Numel() == 0 {
					return b.Z().Sum()
				}
			}
			c := record.Begin()
			fill(&c, b)
			value, marks := c.Two()
			tell(b, marks)
			return value
		},
		ValueGrad: func(b *Batch) (value, grad *torch.Tensor) {
			all := b
			if b.Rows != nil {
				b = b.withoutRows()
			}
			c := forward.Begin()
			fill(&c, b)
			value, grad, marks := c.Three()
			if b.Logits.Numel() > 0 {
				tell(b, marks)
			}
			if all != b {
				at := all.Rows.NeScalar(0).Nonzero().Flatten(0, -1)
				grad = torch.Zeros(all.Logits.Shape(), grad.DType(), grad.Device()).IndexCopy(0, at, grad)
			}
			return value, grad
		},
	}
}

// fusedLAC is PLC's fused form plus the contrast's; the paper's contrast is composed.
func fusedLAC() *FusedForm {
	record, forward := torch.NewOperator("spml::contrast", ""), torch.NewOperator("spml::contrast_fwd", "")
	of := plcForm(nil)
	return &FusedForm{Op: "spml::contrast", New: func(v Values, o Options) Pass {
		plc := of.New(v, o)
		arguments := func(c *torch.OperatorCall, b *Batch) {
			c.Tensor(b.Contrast.Features)
			c.Tensor(b.Contrast.Labels)
			c.Float(v["temperature"])
		}
		add := func(b *Batch, value, term *torch.Tensor) *torch.Tensor {
			if b.Report != nil {
				b.report("loss_lac", term)
				torch.NoGrad(func() { plcValue(*b.withoutRows(), v, o) })
			}
			return value.Add(like(term, value).MulScalar(v["lam_lac"]))
		}
		return Pass{
			Value: func(b *Batch) *torch.Tensor {
				if b.padding() {
					return plc.Value(b)
				}
				if v.is("form") {
					return add(b, plc.Value(b), b.paperContrast(v["temperature"]))
				}
				c := record.Begin()
				arguments(&c, b)
				return add(b, plc.Value(b), c.One())
			},
			ValueGrad: func(b *Batch) (value, grad *torch.Tensor) {
				if b.padding() {
					return plc.ValueGrad(b)
				}
				var term *torch.Tensor
				if v.is("form") {
					torch.NoGrad(func() { term = b.paperContrast(v["temperature"]) })
				} else {
					c := forward.Begin()
					arguments(&c, b)
					c.Bool(false)
					term, _ = c.Two()
				}
				value, grad = plc.ValueGrad(b)
				torch.NoGrad(func() { value = add(b, value, term) })
				return value, grad
			},
		}
	}}
}
