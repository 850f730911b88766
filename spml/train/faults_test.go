package train

import (
	"math"

	"github.com/gospml/gospml/torch"
)

// outOfMemory asks libtorch for more than there is.
func outOfMemory() { torch.Empty(torch.S(1<<50), torch.Float32) }

func nan() float64 { return math.NaN() }
