package loss

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/gospml/gospml/torch"
)

// Loss computes one number from a batch.
type Loss interface {
	// Value is the loss as a zero-dimensional tensor that autograd can differentiate with respect to the logits.
	Value(b Batch) (*torch.Tensor, error)
}

// Func is a loss as a function; it may panic with *torch.Error, which Value returns. Its batch is not empty and has what the
// entry needs.
type Func func(b Batch) *torch.Tensor

// Entry describes one loss for the command, the documentation and the tests.
type Entry struct {
	ID      string   // canonical, kebab-case
	Aliases []string // other spellings, as papers and code have them
	Title   string
	Formula string // L per entry of the matrix, in the paper's letters
	Source  string // paper and equation
	Notes   string // where paper and code differ, and what to know
	Params  []Param
	Forms   map[string]Form // "paper", "code": where they differ from the default
	Needs   Needs
	// Estimator names what of package label feeds it, "" = nothing, and EstimatorNeeds what that wants in each step or epoch.
	Estimator      string
	EstimatorNeeds Needs
	Tables         []string // papers whose tables have it
	New            func(v Values, o Options) (Func, error)
	// WholeBatch says that the loss of a batch is no mean or sum over its rows (counts, selections, contrasts): it cannot be taken in parts.
	WholeBatch bool
	// Fused is the form that computes value and gradient in one pass, nil where there is none. New stays what it is compared with.
	Fused *FusedForm
}

// Options are common to all losses.
type Options struct {
	LogEps    float64   // 0 = exact logarithms, or the form's; the released code has 1e-5 or 1e-7
	Reduction Reduction // "" = the form's, else Mean
	Form      string    // "" = the default, "paper" or "code"
	Impl      Impl      // "" = Auto
	// GroupWeight, if not 0, is α of the groups' term of the L48 benchmark, α·BCE(z, Batch.Group), which is added to
	// the loss and reduced as it is. l48 has a parameter for it instead.
	GroupWeight float64
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
	names := map[string]bool{} // folded: two spellings of one name are no clash
	for _, n := range append([]string{e.ID}, e.Aliases...) {
		if other, taken := registry.names[fold(n)]; taken {
			return fmt.Errorf("loss: the name %q of %s belongs to %s", n, e.ID, other)
		}
		names[fold(n)] = true
	}
	for n := range names {
		registry.names[n] = e.ID
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
	v, err := e.resolve(dataSet, set, o.Form)
	if err != nil {
		return nil, err
	}
	p := e.Forms[o.Form]
	if o.LogEps == 0 {
		o.LogEps = p.LogEps
	}
	if o.Reduction == "" {
		o.Reduction = p.Reduction
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
	c := &checked{f: f, needs: e.Needs, impl: o.Impl}
	if o.GroupWeight != 0 {
		if c.f, err = e.grouped(o, f); err != nil {
			return nil, err
		}
		c.needs |= GroupScores
	}
	switch o.Impl {
	case "", Auto, Fused:
		if e.Fused != nil {
			p := e.Fused.New(v, o)
			if o.GroupWeight != 0 {
				p = groupedPass(o, p)
			}
			c.pass = &p
		} else if o.Impl == Fused {
			return nil, fmt.Errorf("loss: %s has no fused form; use impl=auto or impl=composed", e.ID)
		}
	case Composed:
	default:
		return nil, fmt.Errorf("loss: impl %q is none of auto, composed, fused", o.Impl)
	}
	return c, nil
}

// checked guards a Func: bad batches and tensor errors come back as errors, an empty batch never reaches it.
type checked struct {
	f     Func
	needs Needs
	pass  *Pass // nil: composed
	impl  Impl
}

func (c *checked) Value(b Batch) (v *torch.Tensor, err error) {
	var bad error
	err = torch.Try(func() {
		if bad = b.check(c.needs); bad != nil {
			return
		}
		if b.Logits.Numel() == 0 {
			v = b.Z().Sum()
			return
		}
		var fused bool
		if fused, bad = c.fused(&b); bad != nil {
			return
		}
		if fused {
			v = c.pass.Value(&b)
			return
		}
		if b.Rows != nil {
			b.dropRows()
			if b.Logits.Numel() == 0 {
				v = b.Z().Sum()
				return
			}
		}
		v = c.f(b)
	})
	if err == nil {
		err = bad
	}
	return v, err
}
