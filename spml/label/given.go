package label

import "github.com/gospml/gospml/torch"

// Given feeds pseudo-labels [n, C] of 1, 0 and -1 that were made before.
type Given struct {
	None
	Pseudo *torch.Tensor
}

// Fill gives a batch its labels.
func (g *Given) Fill(s *Step) error {
	s.Batch.Pseudo = g.Pseudo.IndexSelect(0, s.At)
	return nil
}
