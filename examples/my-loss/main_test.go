package main

import (
	"testing"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/losstest"
)

func TestPolyAN(t *testing.T) {
	losstest.Run(t, "poly-an", losstest.Setting{Name: "ε 0.5", Set: loss.Values{"epsilon": 0.5}})
	losstest.Golden(t, "poly-an", "testdata/poly_an.json")
}
