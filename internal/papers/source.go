package papers

import (
	"fmt"
	"regexp"
	"strings"
)

// commit is "OWNER/NAME @ COMMIT".
var commit = regexp.MustCompile(`^[\w.-]+/[\w.-]+ @ v?[\w.]+$`)

// file is the start of a place in a repository: one or more files.
var file = regexp.MustCompile(`^[\w./*-]+\.(py|md|json|yaml|sh)\b`)

// Check says what is wrong with a source. For kind "paper" the place is a key of the index and value what it must state
// for dataSet; for "code" a file, in the repository and commit named; for "ours" a reason.
func Check(index map[string]*Entry, kind, repository, place string, value any, dataSet string) error {
	switch kind {
	case "paper":
		e := index[place]
		if e == nil {
			return fmt.Errorf("the index has no entry %q", place)
		}
		if e.Kind != "setting" || e.Stated == nil || !*e.Stated {
			return fmt.Errorf("%q states no value", place)
		}
		return e.states(value, dataSet)
	case "code":
		if !commit.MatchString(repository) {
			return fmt.Errorf("%q is no repository with a commit", repository)
		}
		if !file.MatchString(place) {
			return fmt.Errorf("%q does not begin with a file", place)
		}
	case "ours":
		if len(strings.Fields(place)) < 2 {
			return fmt.Errorf("%q is no reason", place)
		}
	default:
		return fmt.Errorf("%q is none of paper, code, ours", kind)
	}
	return nil
}

// words are what a paper's text must hold for a value that is no number.
var words = map[string]string{
	"adam": "adam", "adamw": "adamw", "sgd": "sgd", "onecycle": "onecycle", "true": "flip", "decoder": "self-attention", "resnet50": "resnet",
}

// states says whether the entry states value for the data set.
func (e *Entry) states(value any, dataSet string) error {
	stated := e.For(dataSet)
	fail := fmt.Errorf("%s states %v for %s, not %v", e.Key(), stated, dataSet, value)
	var want float64
	switch x := value.(type) {
	case int:
		want = float64(x)
	case float64:
		want = x
	default:
		w, known := words[fmt.Sprint(value)]
		if text, ok := stated.(string); ok && known && strings.Contains(strings.ToLower(text), w) {
			return nil
		}
		return fail
	}
	candidates := []any{stated}
	if list, ok := stated.([]any); ok { // "w(T), b(T)": one of them
		candidates = list
	}
	if stated == "none" {
		candidates = []any{0.0}
	}
	for _, c := range candidates {
		if n, ok := Number(c); ok && n == want {
			return nil
		}
	}
	return fail
}
