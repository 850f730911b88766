// Package method says what a method is: a loss, the label estimator that feeds it, its threshold, what it takes for
// positives, its first stage, and what it needs.
//
// Methods are values in a registry. Those of the papers stand in a file per family; Register adds one from outside,
// which then trains, resumes, compares and appears in lists as they do. A registered loss without a method is one with
// that loss alone.
package method

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// Estimator is what changes a method's labels during training.
type Estimator = label.Estimator

// Step is a batch as an estimator sees it.
type Step = label.Step

// Method is a way to train.
type Method struct {
	ID string // also the id of its loss, unless Of names another's
	// Of names the loss, where it has an id of its own; "" = the method's.
	Of   string
	Loss *loss.Entry // Register fills it in
	// Params are parameters of the loss in place of its own defaults; Form is its form. A run's settings come first.
	Params loss.Values
	Form   string
	// Head names the head that the method trains and no other (model.RegisterHead); "" = the run chooses.
	Head string
	// View names the second view that a run of a form compares with the first, where it names none; nil = LAC's.
	View func(form string) string
	// Estimator makes what changes the labels during training; nil: nothing does.
	Estimator func(*Setup) (Estimator, error)
	// Gives is what the estimator puts into a batch beside what every run has.
	Gives loss.Needs
	// Threshold is above what probability a label counts as present; 0 is one half.
	Threshold float64
	// PseudoPositives are the entries [B, C] of a batch that the method takes for positives, observed ones among them, as
	// numbers other than 0; nil, or a nil result: it takes none. v are the loss's parameters.
	PseudoPositives func(b *loss.Batch, v loss.Values) *torch.Tensor
	// First is the method of a first stage, whose best weights this one may start from; "" = there is none.
	First string
	// Projection is the width of the label-wise embeddings that the loss contrasts; 0 = none.
	Projection int
	// Mask, if not nil, says what a third view shows of each picture, chosen from the class maps of the first: the method
	// gets its logits, without gradient, as Step.Masked, and fine-tunes only. v are the loss's parameters.
	Mask func(v loss.Values) label.PositiveMask
	// FeaturesOnly says why the method trains on stored features alone; "" = it fine-tunes too.
	FeaturesOnly string
	// PartOf names the method that takes this one's step beside its own; such a method does not train by itself.
	PartOf string
	// Single says why the run must be a single process for some parameters; nil or "" = it need not.
	Single func(v loss.Values) string
}

var registry = struct {
	sync.RWMutex
	by map[string]*Method
}{by: map[string]*Method{}}

// Register adds a method. Its loss must be registered (loss.Register): under the same id, or, of a method with an id of
// its own, under the one that Of names. An id that is taken, or is another loss's name, is an error.
func Register(m Method) error {
	if m.Loss == nil {
		e, err := loss.Lookup(cmp.Or(m.Of, m.ID))
		if err != nil {
			return fmt.Errorf("method: %q: register its loss first: %w", m.ID, err)
		}
		m.Loss = e
	}
	if m.ID != m.Loss.ID && m.Of == "" {
		return fmt.Errorf("method: %q has the loss %q; a method and its loss have one id, or Of names the loss", m.ID,
			m.Loss.ID)
	}
	if other, err := loss.Lookup(m.ID); m.ID == "" || err == nil && other.ID != m.ID {
		return fmt.Errorf("method: %q is no id of its own", m.ID)
	}
	registry.Lock()
	defer registry.Unlock()
	if registry.by[m.ID] != nil {
		return fmt.Errorf("method: %q is taken", m.ID)
	}
	registry.by[m.ID] = &m
	return nil
}

// mustRegister is for this package's own methods.
func mustRegister(m Method) {
	if err := Register(m); err != nil {
		panic(err)
	}
}

// Lookup finds a method by its id or an alias of its loss; the error of an unknown name lists what there is.
func Lookup(name string) (*Method, error) {
	for _, m := range own() {
		if strings.EqualFold(m.ID, name) {
			return m, nil
		}
	}
	e, err := loss.Lookup(name)
	if err != nil {
		return nil, err
	}
	return Of(e), nil
}

// own are the methods whose id is not their loss's.
func own() []*Method {
	registry.RLock()
	defer registry.RUnlock()
	var out []*Method
	for _, m := range registry.by {
		if m.ID != m.Loss.ID {
			out = append(out, m)
		}
	}
	return out
}

// Of is the method of a loss.
func Of(e *loss.Entry) *Method {
	registry.RLock()
	defer registry.RUnlock()
	if m := registry.by[e.ID]; m != nil {
		return m
	}
	return &Method{ID: e.ID, Loss: e}
}

// List are all methods by id, those that cannot be trained among them (Lacks).
func List() []*Method {
	var out []*Method
	for _, e := range loss.Entries() {
		out = append(out, Of(e))
	}
	out = append(out, own()...)
	slices.SortFunc(out, func(a, b *Method) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// provided is what every run puts into a batch.
const provided = loss.Observed | loss.Full | loss.Epoch | loss.ModelParameters

// Lacks says in words what a run does not have that the method needs; "" = it can be trained. Some want files:
// pseudo-labels, features of a strong view.
func (m *Method) Lacks() string {
	if m.PartOf != "" {
		return "the step of another method: train " + m.PartOf + ", which takes both"
	}
	names := (m.Loss.Needs &^ (provided | m.Gives | loss.StrongView)).Names()
	if m.Estimator == nil && m.Loss.Estimator != "" {
		names = append(names, "the label estimator "+m.Loss.Estimator)
	}
	return strings.Join(names, ", ")
}

// Trainable are the ids of the methods that can be trained.
func Trainable() []string {
	var ids []string
	for _, m := range List() {
		if m.Lacks() == "" {
			ids = append(ids, m.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// Needs says whether the loss reads some parts of a batch.
func (m *Method) Needs(parts loss.Needs) bool { return m.Loss.Needs&parts != 0 }

// SecondView names the second view of a run of a form that names none.
func (m *Method) SecondView(form string) string {
	if m.View == nil {
		return lacView(form)
	}
	return m.View(form)
}

// Present is the threshold above which a label counts as present.
func (m *Method) Present() float64 {
	if m.Threshold > 0 {
		return m.Threshold
	}
	return 0.5
}

// Positives are the entries of a batch that the method takes for positives, nil for none: given pseudo-labels of 1, or
// its own rule.
func (m *Method) Positives(b *loss.Batch, v loss.Values) *torch.Tensor {
	switch {
	case b.Pseudo != nil:
		return b.Pseudo.EqScalar(1)
	case m.PseudoPositives != nil:
		return m.PseudoPositives(b, v)
	}
	return nil
}
