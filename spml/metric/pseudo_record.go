package metric

// PseudoRecord says how good an epoch's pseudo-labels were, over the images with full labels and without the observed
// positives.
type PseudoRecord struct {
	PseudoQuality
	Precision float64 `json:"precision"` // percent
	Recall    float64 `json:"recall"`    // percent
	F1        float64 `json:"f1"`        // percent
	Negatives int     `json:"negatives"` // labels -1
	Wrong     int     `json:"wrong"`     // of which true positives
	// Confidence is C(M)^(1/n), C(M) the product of the labeller's scores over all n true positives, by which AEVLP's
	// theory judges a labeller; 0 where labels come from a file.
	Confidence float64 `json:"confidence"`
}
