//go:build race

package torch_test

// raceDetector says whether the race detector is on; it takes memory of its own.
const raceDetector = true
