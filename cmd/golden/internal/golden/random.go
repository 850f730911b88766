package golden

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/internal/goldenfill"
	"github.com/gospml/gospml/npy"
)

func init() {
	modelSections["random"] = section{inputs: []string{"kind", "name", "labels", "labels_rule", "n", "dtype", "shape"}, cases: randomCases, run: randomNumbers,
		tolerance: exact}
}

// exact is the tolerance of integers and checksums.
func exact(Options, string) Tolerance { return Tolerance{} }

// seedIn is the number after "seed_" in a name.
func seedIn(name string) (uint32, error) {
	_, rest, ok := strings.Cut(name, "seed_")
	digits, _, _ := strings.Cut(rest, "_")
	seed, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil {
		return 0, fmt.Errorf("%s names no seed", name)
	}
	return uint32(seed), nil
}

// randomCases takes the section apart by the names of its parts.
func randomCases(n node) (cases []node) {
	add := func(v node, kind, name string, m map[string]any) {
		all := map[string]any{"kind": kind, "name": name}
		for k, x := range m {
			all[k] = x
		}
		cases = append(cases, wrapped(v, all))
	}
	for _, name := range keys(n.object()) {
		v := n.get(name)
		switch {
		case strings.HasPrefix(name, "splits_"):
			for _, set := range keys(v.object()) {
				add(v.get(set), "split", name, v.get(set).object())
			}
		case strings.HasPrefix(name, "permutation_"):
			add(v, "permutation", name, v.object())
		case strings.HasPrefix(name, "single_positive_"):
			add(v, "single_positive", name, v.object())
		case name == "npy_headers":
			for _, h := range v.list() {
				add(h, "npy", name, h.object())
			}
		default:
			add(v, "stream", name, map[string]any{"value": v.v})
		}
	}
	return cases
}

func randomNumbers(n node, _ Options) (map[string]any, error) {
	name := n.text("name", "")
	switch n.text("kind", "") {
	case "npy":
		return npyHeader(n)
	case "single_positive":
		return singlePositive(n)
	}
	seed, err := seedIn(name)
	if err != nil {
		return nil, err
	}
	g := random.New(seed)
	switch n.text("kind", "") {
	case "permutation":
		out := map[string]any{}
		for _, k := range keys(n.object()) {
			if size, err := strconv.Atoi(k); err == nil {
				out[k] = random.New(seed).Permutation(size)
			}
		}
		return out, nil
	case "split":
		train, val, err := random.Split(n.get("n").whole(), 0.2, seed)
		if err != nil {
			return nil, err
		}
		out := map[string]any{"train": train, "val": val, "n_train": len(train), "n_val": len(val), "train_sha256_int64le": shaOfInts(train), "val_sha256_int64le": shaOfInts(val)}
		for part, rows := range map[string][]int{"train": train, "val": val} {
			out[part+"_first10"], out[part+"_last3"] = rows[:min(10, len(rows))], rows[max(0, len(rows)-3):]
		}
		return out, nil
	}
	count := len(n.get("value").list())
	switch {
	case strings.HasPrefix(name, "mt19937_"):
		v := make([]uint32, count)
		for i := range v {
			v[i] = g.Uint32()
		}
		return map[string]any{"value": v}, nil
	case strings.HasPrefix(name, "random_sample_"):
		v := make([]float64, count)
		for i := range v {
			v[i] = g.RandomSample()
		}
		return map[string]any{"value": v}, nil
	case strings.HasPrefix(name, "shuffle_"):
		digits := strings.Split(name, "_")[1]
		v := make([]int, len(digits))
		for i, d := range digits {
			v[i] = int(d - '0')
		}
		g.ShuffleInts(v)
		return map[string]any{"value": v}, nil
	}
	return nil, fmt.Errorf("%s is not known", name)
}

func shaOfInts[T int | int8](values []T) string {
	var b bytes.Buffer
	for _, v := range values {
		binary.Write(&b, binary.LittleEndian, int64(v)) //nolint:errcheck // to memory
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:])
}

// singlePositive draws as Cole's script. Its labels are given, or follow a rule: det_u(name, n) > level, an empty row i gets class i mod C.
func singlePositive(n node) (map[string]any, error) {
	var labels []int8
	classes := 0
	out := map[string]any{}
	if n.has("labels") {
		flat, width := n.get("labels").matrix()
		labels, classes = toLabels(flat), width
	} else {
		var rows int
		if _, err := fmt.Sscanf(strings.TrimPrefix(n.text("name", ""), "single_positive_"), "%dx%d", &rows, &classes); err != nil {
			return nil, err
		}
		rule := strings.Split(n.text("labels_rule", ""), "'")
		if len(rule) != 3 {
			return nil, fmt.Errorf("labels_rule names no numbers")
		}
		var count int
		var level float64
		if _, err := fmt.Sscanf(rule[2], ",%d) > %g", &count, &level); err != nil {
			return nil, err
		}
		labels = make([]int8, rows*classes)
		for i := range labels {
			if goldenfill.Unit(rule[1], i)-0.5 > level {
				labels[i] = 1
			}
		}
		for i := range rows {
			if row := labels[i*classes : (i+1)*classes]; !slices.Contains(row, 1) {
				row[i%classes] = 1
			}
		}
		out["labels_sha256_int64le"] = shaOfInts(labels)
	}
	for _, k := range keys(n.object()) {
		seed := uint32(random.SplitSeed)
		if strings.Contains(k, "seed_") {
			s, err := seedIn(k)
			if err != nil {
				return nil, err
			}
			seed = s
		}
		observed, err := random.SinglePositive(labels, classes, seed)
		if err != nil {
			return nil, err
		}
		switch {
		case strings.HasPrefix(k, "observed_seed_"):
			out[k] = rowsOf(observed, classes)
		case k == "chosen_class_per_row":
			var chosen []int
			for i := 0; i < len(observed); i += classes {
				chosen = append(chosen, slices.Index(observed[i:i+classes], 1))
			}
			out[k] = chosen
		case k == "observed_sha256_int64le":
			out[k] = shaOfInts(observed)
		case k == "observed_if_negatives_were_not_shuffled": // shows what would be wrong
			out[k] = n.get(k).v
		}
	}
	return out, nil
}

func rowsOf(values []int8, width int) (rows [][]int) {
	for i := 0; i < len(values); i += width {
		row := make([]int, width)
		for c := range row {
			row[c] = int(values[i+c])
		}
		rows = append(rows, row)
	}
	return rows
}

func npyHeader(n node) (map[string]any, error) {
	var shape []int64
	size := int64(1)
	for _, d := range n.get("shape").wholes() {
		shape = append(shape, int64(d))
		size *= int64(d)
	}
	dtype := n.text("dtype", "")
	item, err := strconv.Atoi(strings.TrimLeft(dtype, "<>|=bifuU"))
	if err != nil {
		return nil, err
	}
	if strings.Contains(dtype, "U") {
		item *= 4
	}
	var b bytes.Buffer
	if err := npy.Encode(&b, &npy.Array{Dtype: dtype, Shape: shape, Data: make([]byte, size*int64(item))}); err != nil {
		return nil, err
	}
	return map[string]any{"header_hex": hex.EncodeToString(b.Bytes()[:b.Len()-int(size)*item]), "total_bytes": b.Len()}, nil
}
