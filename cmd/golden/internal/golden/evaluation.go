package golden

import (
	"fmt"
	"sort"
	"strings"

	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/torch"
)

// matches says whether a path has one of these names in it.
func matches(path string, names ...string) bool {
	for _, n := range names {
		if strings.Contains(path+"/", "/"+n+"/") {
			return true
		}
	}
	return false
}

// meanAP is mAP in percent. Scores go to the metric as their ranks within a class, which float32 holds exactly.
func meanAP(scores, labels *torch.Tensor) (float64, error) {
	n, c := scores.Size(0), scores.Size(1)
	s := torch.ToSlice[float64](scores.ToDType(torch.Float64).Contiguous())
	y := torch.ToSlice[int8](labels.ToDType(torch.Int8).Contiguous())
	ranks := make([]float32, n*c)
	order := make([]int, n)
	for j := range c {
		for i := range order {
			order[i] = i
		}
		sort.Slice(order, func(a, b int) bool { return s[order[a]*c+j] < s[order[b]*c+j] })
		rank := 0
		for k, i := range order {
			if k > 0 && s[i*c+j] != s[order[k-1]*c+j] {
				rank++
			}
			ranks[i*c+j] = float32(rank)
		}
	}
	return metric.MAP(ranks, y, c)
}

// evaluation is what a code base records of the validation part: mAP, and, but for one family, recall, precision and hit rate
// of the k best-scored classes of each image, averaged over images.
func evaluation(scores, labels *torch.Tensor, f family) (map[string]any, error) {
	v, err := meanAP(scores, labels)
	out := map[string]any{"map": v}
	if err != nil || f == robust {
		return out, err
	}
	_, order := scores.SortStable(true, 1, true)
	hits := labels.Gather(1, order).Cumsum(1) // [N, C]: positives among the first k+1
	positives := labels.SumDim([]int{1}, false).ClampMin(1)
	for _, k := range []int{1, 3, 5} {
		if k > labels.Size(1) {
			continue
		}
		h := hits.Select(1, k-1)
		out[fmt.Sprintf("rec_at_%d", k)] = h.Div(positives).Mean().Item()
		out[fmt.Sprintf("prec_at_%d", k)] = h.DivScalar(float64(k)).Mean().Item()
		out[fmt.Sprintf("top_%d", k)] = h.GtScalar(0).ToDType(torch.Float64).Mean().Item()
	}
	return out, nil
}
