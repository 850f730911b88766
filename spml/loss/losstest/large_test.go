package losstest_test

import (
	"testing"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/losstest"
	"github.com/gospml/gospml/torch/torchtest"
)

// Every registered loss at 4096 × 5000.
func TestLarge(t *testing.T) {
	torchtest.NoLeaks(t)
	for _, e := range loss.Entries() {
		t.Run(e.ID, func(t *testing.T) { losstest.Large(t, e.ID, losstest.Setting{}) })
	}
}
