package loss

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/gospml/gospml/torch"
)

// Needs says which parts of a Batch a loss reads.
type Needs int

// Parts of a Batch.
const (
	Observed Needs = 1 << iota
	Full
)

// Loss computes one number from a batch.
type Loss interface {
	// Value is the loss as a zero-dimensional tensor that autograd can differentiate with respect to the logits.
	Value(b Batch) (*torch.Tensor, error)
}

// Func is a loss as a function; it may panic with *torch.Error, which Value returns.
type Func func(b Batch) *torch.Tensor

// Param is one parameter of a loss.
type Param struct {
	Name    string
	Doc     string
	Default float64
	// ByData are the papers' values per data set: voc, coco, nus, cub.
	ByData map[string]float64
}

// Values are parameters by name, with every default filled in.
type Values map[string]float64

// Entry describes one loss for the command, the documentation and the tests.
type Entry struct {
	ID      string   // canonical, kebab-case
	Aliases []string // other spellings, as papers and code have them
	Title   string
	Source  string // paper and equation
	Params  []Param
	Needs   Needs
	New     func(v Values, o Options) (Func, error)
}

// Options are common to all losses.
type Options struct {
	LogEps    float64   // 0 = exact logarithms; the released code has 1e-5 or 1e-7
	Reduction Reduction // "" = Mean
}

var registry = struct {
	sync.RWMutex
	entries map[string]*Entry
	names   map[string]string // folded id or alias -> id
}{entries: map[string]*Entry{}, names: map[string]string{}}

// fold makes spellings equal: an-ls, AN_LS and "AN LS" are one name.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == ' ' || r == '+' || r == '/' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// Register adds a loss. An id or alias that is taken, or an entry without New, is an error.
func Register(e Entry) error {
	if e.ID == "" || e.New == nil {
		return fmt.Errorf("loss: an entry needs an id and New")
	}
	registry.Lock()
	defer registry.Unlock()
	names := append([]string{e.ID}, e.Aliases...)
	for _, n := range names {
		if other, taken := registry.names[fold(n)]; taken {
			return fmt.Errorf("loss: the name %q of %s belongs to %s", n, e.ID, other)
		}
	}
	for _, n := range names {
		registry.names[fold(n)] = e.ID
	}
	registry.entries[e.ID] = &e
	return nil
}

// mustRegister is for this package's own entries.
func mustRegister(e Entry) {
	if err := Register(e); err != nil {
		panic(err)
	}
}

// Lookup finds a loss by id or alias; the error of an unknown name lists what there is.
func Lookup(name string) (*Entry, error) {
	registry.RLock()
	defer registry.RUnlock()
	id, ok := registry.names[fold(name)]
	if !ok {
		return nil, fmt.Errorf("loss: no loss is called %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(registry.entries)), ", "))
	}
	return registry.entries[id], nil
}

// Entries lists all losses by id.
func Entries() []*Entry {
	registry.RLock()
	defer registry.RUnlock()
	out := slices.Collect(maps.Values(registry.entries))
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}

// Defaults are the parameters for a data set (voc, coco, nus, cub; anything else takes the general default).
func (e *Entry) Defaults(dataSet string) Values {
	v := Values{}
	for _, p := range e.Params {
		v[p.Name] = p.Default
		if d, ok := p.ByData[strings.ToLower(dataSet)]; ok {
			v[p.Name] = d
		}
	}
	return v
}

// Resolve is Defaults with some parameters set; an unknown name or a value that is not finite is an error.
func (e *Entry) Resolve(dataSet string, set Values) (Values, error) {
	v := e.Defaults(dataSet)
	for name, x := range set {
		if _, ok := v[name]; !ok {
			return nil, fmt.Errorf("loss: %s has no parameter %q; it has %s", e.ID, name, e.paramNames())
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("loss: parameter %s of %s is %v", name, e.ID, x)
		}
		v[name] = x
	}
	return v, nil
}

func (e *Entry) paramNames() string {
	if len(e.Params) == 0 {
		return "none"
	}
	var s []string
	for _, p := range e.Params {
		s = append(s, p.Name+"="+strconv.FormatFloat(p.Default, 'g', -1, 64))
	}
	return strings.Join(s, ", ")
}

// New makes a loss by name. set overrides the defaults for dataSet.
func New(name, dataSet string, set Values, o Options) (Loss, error) {
	e, err := Lookup(name)
	if err != nil {
		return nil, err
	}
	return e.Make(dataSet, set, o)
}

// Make makes the loss of this entry.
func (e *Entry) Make(dataSet string, set Values, o Options) (Loss, error) {
	v, err := e.Resolve(dataSet, set)
	if err != nil {
		return nil, err
	}
	switch o.Reduction {
	case "":
		o.Reduction = Mean
	case Mean, Sum, BatchMean:
	default:
		return nil, fmt.Errorf("loss: reduction %q is none of mean, sum, batch", o.Reduction)
	}
	if !(o.LogEps >= 0 && o.LogEps < 1) {
		return nil, fmt.Errorf("loss: log_eps is %v, want 0 (exact) or a small positive number", o.LogEps)
	}
	f, err := e.New(v, o)
	if err != nil {
		return nil, fmt.Errorf("loss: %s: %w", e.ID, err)
	}
	return &checked{f, e.Needs}, nil
}

// checked guards a Func: bad batches and tensor errors come back as errors.
type checked struct {
	f     Func
	needs Needs
}

func (c *checked) Value(b Batch) (v *torch.Tensor, err error) {
	var bad error
	err = torch.Try(func() {
		if bad = b.check(c.needs); bad == nil {
			v = c.f(b)
		}
	})
	if err == nil {
		err = bad
	}
	return v, err
}
