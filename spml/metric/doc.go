// Package metric scores multi-label predictions.
//
// # Matrices
//
// Scores and labels are row-major [N, C] matrices: float32 or float64 scores as a network gives them (for average precision and ranking only the order
// matters, thresholds and calibration want probabilities: [Sigmoid]) and int8 labels, where 1 is positive and everything else (0, -1) is negative. mAP is
// in percent, everything else in [0, 1] unless it says otherwise. A NaN or infinite score is an error that names row and class: [ScoreError].
//
// # What there is
//
// [Evaluate] computes a [Report] of everything at once; an [Accumulator] does it batch by batch in bounded memory. Alone: [AveragePrecision] in its
// forms ([Step], [Rank], [OpenImages], [VOC2007]), [CountAt] with [Micro], [Macro] and [Weighted], [Rankings], [Calibrations], [BestThresholds],
// [Temperature] and [FitPlatt], [BootstrapMAP] and [CompareMAP], [PseudoQuality], [Separate] and [Wasserstein].
//
// A class without positives has average precision 0 and stays in the mean, as in all the papers.
//
// # Threads
//
// All functions read their arguments only, keep nothing, and are safe to call from many goroutines. An Accumulator and a PseudoQuality belong to one at a time.
package metric
