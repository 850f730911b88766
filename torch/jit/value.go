package jit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/internal/link"
)

// Tuple is a TorchScript tuple.
type Tuple []any

// Item is an entry of a Dict.
type Item struct{ Key, Value any }

// Dict is a TorchScript dict in its order.
type Dict []Item

// Get returns the value of a key, nil if there is none.
func (d Dict) Get(key any) any {
	for _, it := range d {
		if it.Key == key {
			return it.Value
		}
	}
	return nil
}

const maxDepth = 64

// encoder writes values in the form of gospml_jit.h.
type encoder struct {
	op      string
	text    []byte
	handles []uint64
	keep    []*torch.Tensor
}

func (e *encoder) value(v any, depth int) error {
	if depth > maxDepth {
		return errors.New("it is nested too deeply")
	}
	switch v := v.(type) {
	case nil:
		e.text = append(e.text, 'n')
	case *torch.Tensor:
		err := torch.Try(func() { e.handles = append(e.handles, link.Handle(e.op, v)) })
		if err != nil {
			return err
		}
		e.keep = append(e.keep, v)
		e.text = append(e.text, 't')
	case bool:
		e.text = append(e.text, 'b', '0')
		if v {
			e.text[len(e.text)-1] = '1'
		}
	case int:
		e.text = fmt.Appendf(e.text, "i%d;", v)
	case int64:
		e.text = fmt.Appendf(e.text, "i%d;", v)
	case float32:
		e.text = fmt.Appendf(e.text, "d%016x", math.Float64bits(float64(v)))
	case float64:
		e.text = fmt.Appendf(e.text, "d%016x", math.Float64bits(v))
	case string:
		e.text = fmt.Appendf(e.text, "s%d:%s", len(v), v)
	case Tuple:
		return many(e, '(', ')', v, depth)
	case []any:
		return many(e, '[', ']', v, depth)
	case []*torch.Tensor:
		return many(e, '[', ']', v, depth)
	case []int64:
		return many(e, '[', ']', v, depth)
	case []int:
		return many(e, '[', ']', v, depth)
	case []float64:
		return many(e, '[', ']', v, depth)
	case []bool:
		return many(e, '[', ']', v, depth)
	case []string:
		return many(e, '[', ']', v, depth)
	case Dict:
		e.text = append(e.text, '{')
		for _, it := range v {
			if err := e.value(it.Key, depth+1); err != nil {
				return err
			}
			if err := e.value(it.Value, depth+1); err != nil {
				return err
			}
		}
		e.text = append(e.text, '}')
	default:
		return fmt.Errorf("a %T has no form in TorchScript", v)
	}
	return nil
}

func many[T any](e *encoder, open, close byte, vs []T, depth int) error {
	e.text = append(e.text, open)
	for _, v := range vs {
		if err := e.value(v, depth+1); err != nil {
			return err
		}
	}
	e.text = append(e.text, close)
	return nil
}

// decoder reads what the library wrote.
type decoder struct {
	text    string
	tensors []any
}

var errText = errors.New("the library's result cannot be read")

func (d *decoder) until(stop string) (string, error) {
	head, rest, ok := strings.Cut(d.text, stop)
	if !ok {
		return "", errText
	}
	d.text = rest
	return head, nil
}

func (d *decoder) value(depth int) (any, error) {
	if d.text == "" || depth > maxDepth {
		return nil, errText
	}
	kind := d.text[0]
	d.text = d.text[1:]
	switch kind {
	case 't':
		if len(d.tensors) == 0 {
			return nil, errText
		}
		t := d.tensors[0]
		d.tensors = d.tensors[1:]
		return t, nil
	case 'n':
		return nil, nil
	case 'b':
		if d.text == "" {
			return nil, errText
		}
		v := d.text[0] == '1'
		d.text = d.text[1:]
		return v, nil
	case 'i':
		s, err := d.until(";")
		if err != nil {
			return nil, err
		}
		return strconv.ParseInt(s, 10, 64)
	case 'd':
		if len(d.text) < 16 {
			return nil, errText
		}
		bits, err := strconv.ParseUint(d.text[:16], 16, 64)
		d.text = d.text[16:]
		return math.Float64frombits(bits), err
	case 's':
		s, err := d.until(":")
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > len(d.text) {
			return nil, errText
		}
		v := d.text[:n]
		d.text = d.text[n:]
		return v, nil
	case '(':
		vs, err := d.list(")", depth)
		return Tuple(vs), err
	case '[':
		return d.list("]", depth)
	case '{':
		vs, err := d.list("}", depth)
		if err != nil || len(vs)%2 != 0 {
			return nil, errText
		}
		items := Dict{}
		for i := 0; i < len(vs); i += 2 {
			items = append(items, Item{vs[i], vs[i+1]})
		}
		return items, nil
	}
	return nil, errText
}

func (d *decoder) list(close string, depth int) ([]any, error) {
	vs := []any{}
	for !strings.HasPrefix(d.text, close) {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		vs = append(vs, v)
	}
	d.text = d.text[1:]
	return vs, nil
}
