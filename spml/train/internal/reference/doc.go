// Package reference has no code: its tests train the methods of the reference runs (Python's linear heads on stored features, per method
// and seed) with the same files, draws and recipe, and those methods that have none.
package reference
