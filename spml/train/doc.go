// Package train trains, evaluates and applies the methods of single-positive multi-label learning.
//
// Run trains by the settings of package config and leaves a run directory: run.yaml (the effective settings),
// env.json (versions, hashes),
// metrics.csv (a row an epoch), scores.jsonl (where each epoch's scores lie: EpochScores), model/ (config.json and
// model.safetensors of the selected epoch) and scores of the test part. Evaluate scores a run again, and Load gives a
// Tagger that a program can call.
//
// # Recipes of numbers
//
// All randomness of a run comes from numpy's legacy generator seeded with config.Run.Seed, in the order of the
// reference
// runs: head weight, head bias, then for each epoch the order of the training rows and, where images are mirrored, one
// draw a row. A backbone without pretrained weights is initialised by torch's generator under the same seed.
//
// # Threads and errors
//
// Run and Evaluate keep one OS thread each and may run side by side. A Tagger is safe for many goroutines. Every
// function returns errors; a broken image is named and left out, never a crash. A panic, be it of an Events function,
// comes back as a *PanicError with its stack. Cancelling the context ends a run after the current step.
package train
