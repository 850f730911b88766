package main

import "testing"

// Methods with estimators of each kind learn in a loop of one's own: without one, with a table that is trained, with
// labels that change after an epoch and after a step.
func TestRun(t *testing.T) {
	for _, id := range []string{"an", "role", "em-apl", "ll-cp"} {
		if mAP := run(id, 8); mAP < 40 { // an untrained network has 34
			t.Errorf("%s: test mAP %.1f", id, mAP)
		} else {
			t.Logf("%s: test mAP %.1f", id, mAP)
		}
	}
}
