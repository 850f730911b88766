// Package audit finds labels that are probably missing: pairs of a photo and a class whose label is not known, ranked by what a trained model, an image-text
// model and the nearest photos say together.
//
// # Types
//
//   - [Evidence]: what each [Source] says of every pair, computed by [Collect] from a run, or filled in by a program.
//   - [Table], made by [Rank]: the candidates in order, each with what every source added to its score, and [Precision] where the full labels are known.
//   - [Decisions]: what a person decided, read by [ReadDecisions] from the page, a CSV file, Label Studio or FiftyOne; [Apply] makes the new labels.
//
// # Threads
//
// Everything returned is plain data that many goroutines may read. Functions return errors; those of wrong files wrap [ErrDecisions].
package audit
