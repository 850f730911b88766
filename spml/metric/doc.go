// Package metric scores multi-label predictions.
//
// Scores and labels are row-major [N, C] matrices: float32 scores as a network gives them (logits or probabilities: only the order
// matters) and int8 labels, where 1 is positive and everything else (0, -1) is negative. mAP is in percent, a class's average precision in [0, 1].
//
// Average precision has two forms, [Step] and [Rank]; they differ only through ties and an epsilon. A class without positives has average precision 0
// and stays in the mean, as in all the papers. A NaN or infinite score is an error that names row and class: [ScoreError].
//
// All functions read their arguments only, keep nothing, and are safe to call from many goroutines.
package metric
