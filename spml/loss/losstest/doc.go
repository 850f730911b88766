// Package losstest tests a registered loss by its entry alone: first and second derivatives against finite differences, and the
// inputs at the edges. It serves the losses of package loss and those registered from elsewhere:
//
//	func TestMine(t *testing.T) {
//		losstest.Run(t, "mine")                          // derivatives, edge cases
//		losstest.Golden(t, "mine", "testdata/mine.json") // numbers from elsewhere
//		losstest.Large(t, "mine", losstest.Setting{})    // 4096 × 5000
//	}
package losstest
