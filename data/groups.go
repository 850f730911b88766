package data

import (
	"encoding/csv"
	"errors"
	"io"
	"os"
	"strings"
)

// ReadGroups reads which images share labels from a CSV file with the columns filename and group. Groups are numbered
// in the order of the file; images that it does not name, or whose group is empty, have none (-1).
func ReadGroups(path string, images []string) ([]int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	row := make(map[string]int, len(images))
	groups := make([]int, len(images))
	for i, name := range images {
		row[name], groups[i] = i, -1
	}
	r := csv.NewReader(f)
	r.ReuseRecord = true
	head, err := r.Read()
	if err != nil || len(head) != 2 || strings.TrimPrefix(head[0], "\ufeff") != "filename" || head[1] != "group" {
		return nil, formatError(path, 1, "the first line must be filename,group")
	}
	number, named := map[string]int{}, make([]bool, len(images))
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		line, _ := r.FieldPos(0)
		if err != nil {
			return nil, formatError(path, line, "%v", err)
		}
		at, known := row[rec[0]]
		switch {
		case !known:
			return nil, formatError(path, line, "%.60q is no image of the data set", rec[0])
		case named[at]:
			return nil, formatError(path, line, "%.60q is named twice", rec[0])
		}
		named[at] = true
		if rec[1] == "" {
			continue
		}
		if len(rec[1]) > 4096 {
			return nil, formatError(path, line, "the name of a group has %d bytes", len(rec[1]))
		}
		n, ok := number[rec[1]]
		if !ok {
			n = len(number)
			number[rec[1]] = n
		}
		groups[at] = n
	}
	if len(number) == 0 {
		return nil, formatError(path, 0, "the file puts no image into a group")
	}
	return groups, nil
}
