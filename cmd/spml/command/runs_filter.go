package command

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gospml/gospml/internal/spelling"
	"github.com/gospml/gospml/spml/rundir"
)

var condition = regexp.MustCompile(`^\s*([a-z_0-9-]+)\s*(!=|=|>|<)\s*(.*?)\s*$`)

// filtered are the runs that meet every condition of a filter.
func filtered(all []rundir.Summary, filter string) ([]rundir.Summary, error) {
	if filter == "" {
		return all, nil
	}
	for _, text := range strings.Split(filter, ",") {
		m := condition.FindStringSubmatch(text)
		if m == nil {
			return nil, usageError{fmt.Errorf("--filter: %q is no condition such as method=em or val>80", text)}
		}
		name, op, want := strings.ReplaceAll(m[1], "-", "_"), m[2], m[3]
		if err := knownFact(all, name); err != nil {
			return nil, err
		}
		bound, notNumber := strconv.ParseFloat(want, 64)
		if (op == "<" || op == ">") && notNumber != nil {
			return nil, usageError{fmt.Errorf("--filter: %q is no number in %q", want, text)}
		}
		if _, err := path.Match(want, ""); err != nil {
			return nil, usageError{fmt.Errorf("--filter: %q is no pattern in %q", want, text)}
		}
		all = slices.DeleteFunc(slices.Clone(all), func(s rundir.Summary) bool {
			have, ok := fact(s, name)
			number, err := strconv.ParseFloat(have, 64)
			matched, _ := path.Match(want, have)
			same := ok && (have == want || matched || err == nil && notNumber == nil && number == bound)
			switch op {
			case "=":
				return !same
			case "!=":
				return same
			case ">":
				return err != nil || !(number > bound)
			default:
				return err != nil || !(number < bound)
			}
		})
	}
	return all, nil
}

// fact is what a run says of a name in a filter.
func fact(s rundir.Summary, name string) (string, bool) {
	number := func(v *float64) (string, bool) {
		if v == nil {
			return "", false
		}
		return strconv.FormatFloat(*v, 'g', -1, 64), true
	}
	switch name {
	case "run":
		return s.Dir, true
	case "state":
		return string(s.State), true
	case "method":
		return s.Method, true
	case "backbone":
		return s.Backbone, true
	case "data":
		return s.Data, true
	case "val":
		return number(s.Val)
	case "test":
		return number(s.Test)
	case "epoch":
		return strconv.Itoa(s.Epoch), true
	case "seconds":
		return strconv.FormatFloat(s.Seconds, 'g', -1, 64), true
	case "size":
		return strconv.FormatInt(s.Bytes, 10), true
	}
	v, ok := s.Settings[name]
	return v, ok
}

// factNames are the names of fact that are no settings.
var factNames = strings.Fields("run state method backbone data val test epoch seconds size")

// knownFact refuses a name that no run has.
func knownFact(all []rundir.Summary, name string) error {
	if len(all) == 0 || slices.Contains(factNames, name) {
		return nil
	}
	names := slices.Clone(factNames)
	for _, s := range all {
		if _, ok := s.Settings[name]; ok {
			return nil
		}
		names = append(names, slices.Sorted(maps.Keys(s.Settings))...)
	}
	hint := ""
	if near := spelling.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("; is it %s?", near)
	}
	return usageError{fmt.Errorf("--filter: no run has a setting %s%s", name, hint)}
}
