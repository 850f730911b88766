// Package vlm makes pseudo-labels of a data set with an image-text model, as VLPL (Xing et al. 2024) and DAMP of AEVLP (Tran et al. 2025) do.
//
// # Use
//
//	s, err := vlm.Published(vlm.DAMP, "voc", vlm.Default)
//	l, err := vlm.New(ctx, model, ds.Classes, s)
//	sum, err := l.Run(ctx, ds, vlm.Outputs{Labels: "labels.npy"}, vlm.Events{})
//
// Run passes over all photos once and writes what trainers read. Label does the same for some photos in memory, and Settings.Labels for cosines that
// are already there.
//
// # Labels
//
// 1 is a positive, -1 a negative, 0 unknown. Observed labels always stay. A photo that cannot be read keeps its observed labels alone and is named once.
// The numbers and forms are those of Published; scores are shares that sum to 1 over the classes, so thresholds are
// low.
//
// # Differences from the released programs
//
// Run makes labels once, of photos as they are; the programs make them anew in every step, of photos that are mirrored at random. Label does so for training
// (Photos.Epoch, Photos.Mirror): package train calls it for each batch. A photo without an
// observed positive takes its most similar class for DAMP's local threshold; of several observed positives the first counts.
//
// # Interruption
//
// Results go to a journal beside the file, batch by batch. A run that was killed goes on there when it is started again with the same settings, model,
// classes, names and labels, and ends in the identical file; photos that changed meanwhile are not noticed. One run at a time writes a
// file; a second one is refused.
//
// # Several processes
//
// With Outputs.Shard each process labels its part of the batches of the whole pass, without speaking to the others, and the last one to end writes the files, which are those
// of a single process with as many threads.
//
// # Memory, threads
//
// Memory holds two batches of photos, whatever the number of photos, beside the data set itself. A Labeller is safe for many goroutines.
package vlm
