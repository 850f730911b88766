package vlm

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

//go:embed cub_names.txt
var cubNames string

// cubName is ReadNames' name for CUBNames.
const cubName = "cub"

// CUBNames are the 312 attributes of CUB-200-2011 as prompts have them, in the order of their numbers: "curved bill"
// for has_bill_shape::curved_(up_or_down). They are those of the released programs of SCPNet and AEVLP.
func CUBNames() []string { return strings.Split(strings.TrimSuffix(cubNames, "\n"), "\n") }

// isCUB says whether classes are CUB's attributes as the data set calls them, has_PART::VALUE, which no prompt should
// hold.
func isCUB(classes []string) bool {
	return len(classes) == strings.Count(cubNames, "\n") && !slices.ContainsFunc(classes, func(c string) bool {
		return !strings.HasPrefix(c, "has_") || !strings.Contains(c, "::")
	})
}

// maxTexts bytes are read of a file of texts.
const maxTexts = 1 << 26

// ReadNames reads what stands for the classes in prompts, one text a class: "cub" for CUBNames, else a file as
// ReadTexts takes it.
func ReadNames(name string) ([]string, error) {
	if name == cubName {
		return CUBNames(), nil
	}
	return ReadTexts(name)
}

// ReadTexts reads a file with a text a line, or with a JSON array of strings.
func ReadTexts(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTexts+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxTexts:
		return nil, fmt.Errorf("%w: %s is larger than %d MB", ErrSettings, path, maxTexts>>20)
	}
	if s := strings.TrimSpace(string(b)); strings.HasPrefix(s, "[") {
		var texts []string
		if err := json.Unmarshal([]byte(s), &texts); err == nil {
			return texts, nil
		} else if strings.HasPrefix(s, `["`) || json.Valid([]byte(s)) { // no text would begin or be so
			return nil, fmt.Errorf("%w: %s: it looks like JSON and is no array of strings: %w", ErrSettings, path, err)
		}
	}
	s := strings.TrimSuffix(string(b), "\n")
	if s == "" {
		return nil, fmt.Errorf("%w: %s holds no texts", ErrSettings, path)
	}
	texts := strings.Split(s, "\n")
	for i := range texts {
		texts[i] = strings.TrimSuffix(texts[i], "\r")
	}
	return texts, nil
}
