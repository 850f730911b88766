package data

import (
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

const maxYAMLBytes = 1 << 20

// parseYOLONames reads `names` of a YOLO data.yaml: a list, or a map from number to name.
func parseYOLONames(r io.Reader, file string) ([]string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxYAMLBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxYAMLBytes {
		return nil, formatError(file, 0, "the file is larger than %d bytes", maxYAMLBytes)
	}
	var y struct {
		Names yaml.Node `yaml:"names"`
	}
	if err := yaml.Unmarshal(text, &y); err != nil {
		return nil, formatError(file, 0, "%v", err)
	}
	var list []string
	if y.Names.Decode(&list) == nil && len(list) > 0 {
		return list, nil
	}
	var byNumber map[int]string
	if err := y.Names.Decode(&byNumber); err != nil || len(byNumber) == 0 {
		return nil, formatError(file, 0, "names must be a list of class names or a map from number to name")
	}
	var numbers []int
	for n := range byNumber {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		if i != n {
			return nil, formatError(file, 0, "names has no class number %d", i)
		}
		list = append(list, byNumber[n])
	}
	return list, nil
}
