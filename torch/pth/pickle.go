package pth

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/big"
	"strings"
	"unicode/utf8"
)

// slack is what reading may allocate beyond the file's size.
const slack = 1 << 20

// reserve is the part of it that the reader's own buffers take.
const reserve = 160 << 10

// A tensor costs about 1,700 bytes of Go's memory beside its elements (name, shape, strides, storage, entry of the
// archive, memo), and torch.save spends over 80 bytes of pickle on it. So a tensor adds perTensor to the account, but
// no more than perByte for each byte of pickle since the last one, and all tensors together no more than tensorLimit: a
// file of nothing but tensors is read, one that repeats a tensor in five bytes is not.
const (
	perTensor   = 3 << 10
	perByte     = 32
	tensorLimit = 256 << 20
)

// budget is the account that everything made from a file is charged to.
type budget struct{ left, limit, granted int64 }

func newBudget(limit int64) *budget { return &budget{left: limit - reserve, limit: limit} }

// grant raises the account for a tensor that took n bytes of pickle.
func (b *budget) grant(n int64) {
	g := min(perTensor, perByte*n, tensorLimit-b.granted)
	b.granted, b.left, b.limit = b.granted+g, b.left+g, b.limit+g
}

func (b *budget) charge(n int64) error {
	if n < 0 || n > b.left {
		return fmt.Errorf("it describes more objects than fit in %d bytes: an object bomb? (OpenLimit reads trusted files with more, "+
			"the command spml with --file-budget 1GB)", b.limit)
	}
	b.left -= n
	return nil
}

// vm runs the instructions of a pickle that build data.
type vm struct {
	r       *bufio.Reader
	left    int64 // bytes of input
	tensor  int64 // left at the last tensor
	budget  *budget
	stack   []any
	marks   []int
	memo    []any          // entries 0, 1, 2, …
	sparse  map[uint32]any // the others
	persist func(id Tuple) (any, error)
	script  bool // TorchScript: classes of __torch__ are objects with attributes
	scratch [256]byte
	numpy   *bufio.Reader
}

func (v *vm) take(n int64) error {
	if n > v.left {
		return fmt.Errorf("its pickle ends within an instruction: is it truncated?")
	}
	v.left -= n
	return nil
}

func (v *vm) bytes(p []byte) error {
	if err := v.take(int64(len(p))); err != nil {
		return err
	}
	return v.full(p)
}

func (v *vm) full(p []byte) error {
	if _, err := io.ReadFull(v.r, p); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return fmt.Errorf("it ended while it was read: was it cut short meanwhile?")
		}
		return &systemError{err}
	}
	return nil
}

func (v *vm) uint(n int) (uint64, error) {
	if err := v.take(int64(n)); err != nil {
		return 0, err
	}
	var u uint64
	for i := range n {
		c, err := v.r.ReadByte()
		if err != nil {
			return 0, &systemError{err}
		}
		u |= uint64(c) << (8 * i)
	}
	return u, nil
}

// text reads n bytes into a new slice, after the check that they are there.
func (v *vm) text(n uint64) ([]byte, error) {
	if n > uint64(v.left) {
		return nil, fmt.Errorf("its pickle says a string of %d bytes where %d are left: is it truncated?", n, v.left)
	}
	if err := v.budget.charge(int64(n) + 48); err != nil {
		return nil, err
	}
	p := make([]byte, n)
	return p, v.bytes(p)
}

func (v *vm) str(n uint64) error {
	p, err := v.text(n)
	if err != nil {
		return err
	}
	if err := v.budget.charge(int64(n) + 16); err != nil {
		return err
	}
	if !utf8.Valid(p) {
		return fmt.Errorf("its pickle holds a string that is not UTF-8")
	}
	return v.push(string(p))
}

// line reads a name up to the newline.
func (v *vm) line() (string, error) {
	var b [256]byte
	for n := range b {
		c, err := v.uint(1)
		if err != nil {
			return "", err
		}
		if c == '\n' {
			if !utf8.Valid(b[:n]) {
				return "", fmt.Errorf("the name of a global is not UTF-8")
			}
			return string(b[:n]), nil
		}
		b[n] = byte(c)
	}
	return "", fmt.Errorf("the name of a global is longer than %d bytes", len(b))
}

func (v *vm) push(x any) error {
	if len(v.stack) == cap(v.stack) {
		if err := v.budget.charge(int64(cap(v.stack))*32 + 256); err != nil {
			return err
		}
		s := make([]any, len(v.stack), 2*cap(v.stack)+16)
		copy(s, v.stack)
		v.stack = s
	}
	v.stack = append(v.stack, x)
	return nil
}

func (v *vm) floor() int {
	if len(v.marks) == 0 {
		return 0
	}
	return v.marks[len(v.marks)-1]
}

func (v *vm) pop() (any, error) {
	if len(v.stack) <= v.floor() {
		return nil, fmt.Errorf("its pickle takes more from the stack than is there")
	}
	x := v.stack[len(v.stack)-1]
	v.stack = v.stack[:len(v.stack)-1]
	return x, nil
}

// top is the object that the next instruction changes.
func (v *vm) top() (any, error) {
	if len(v.stack) <= v.floor() {
		return nil, fmt.Errorf("its pickle takes more from the stack than is there")
	}
	return v.stack[len(v.stack)-1], nil
}

// popMark returns what is above the last mark; it is valid until the next push.
func (v *vm) popMark() ([]any, error) {
	if len(v.marks) == 0 {
		return nil, fmt.Errorf("its pickle lacks a mark")
	}
	at := v.floor()
	v.marks = v.marks[:len(v.marks)-1]
	items := v.stack[at:]
	v.stack = v.stack[:at]
	return items, nil
}

// tuple replaces items, which are the last of the stack, by a tuple of them.
func (v *vm) tuple(items []any) error {
	if err := v.budget.charge(int64(len(items))*16 + 24); err != nil {
		return err
	}
	t := make(Tuple, len(items))
	copy(t, items)
	return v.push(t)
}

func (v *vm) tupleOf(n int) error {
	if len(v.stack)-n < v.floor() {
		return fmt.Errorf("its pickle takes more from the stack than is there")
	}
	items := v.stack[len(v.stack)-n:]
	v.stack = v.stack[:len(v.stack)-n]
	return v.tuple(items)
}

func (v *vm) put(i uint64) error {
	x, err := v.top()
	if err != nil {
		return err
	}
	switch {
	case i < uint64(len(v.memo)):
		v.memo[i] = x
	case i == uint64(len(v.memo)):
		if len(v.memo) == cap(v.memo) {
			if err := v.budget.charge(int64(cap(v.memo))*32 + 512); err != nil {
				return err
			}
			m := make([]any, len(v.memo), 2*cap(v.memo)+32)
			copy(m, v.memo)
			v.memo = m
		}
		v.memo = append(v.memo, x)
	default:
		if err := v.budget.charge(160); err != nil {
			return err
		}
		if v.sparse == nil {
			v.sparse = map[uint32]any{}
		}
		v.sparse[uint32(i)] = x
	}
	return nil
}

func (v *vm) get(i uint64) error {
	if i < uint64(len(v.memo)) {
		return v.push(v.memo[i])
	}
	if x, ok := v.sparse[uint32(i)]; ok {
		return v.push(x)
	}
	return fmt.Errorf("its pickle reads memo %d, which is not set", i)
}

// run executes a pickle up to its STOP and returns what it made.
func (v *vm) run() (any, error) {
	v.stack, v.marks, v.memo, v.sparse = v.stack[:0], v.marks[:0], v.memo[:0], nil
	for {
		op, err := v.uint(1)
		if err != nil {
			return nil, err
		}
		if op == '.' {
			x, err := v.pop()
			if err != nil {
				return nil, err
			}
			if len(v.stack) != 0 || len(v.marks) != 0 {
				return nil, fmt.Errorf("its pickle stops with %d objects left on the stack", len(v.stack))
			}
			return x, nil
		}
		if err := v.step(byte(op)); err != nil {
			return nil, err
		}
	}
}

// step executes an instruction. The names of the instructions are those of Python's pickletools.
func (v *vm) step(op byte) error {
	switch op {
	case 0x80: // PROTO
		n, err := v.uint(1)
		if err != nil {
			return err
		}
		if n < 2 || n > 5 {
			return fmt.Errorf("its pickle is of protocol %d: 2 to 5 are read", n)
		}
		return nil
	case 0x95: // FRAME
		n, err := v.uint(8)
		if err == nil && n > uint64(v.left) {
			err = fmt.Errorf("its pickle says a frame of %d bytes where %d are left: is it truncated?", n, v.left)
		}
		return err
	case '(': // MARK
		if len(v.marks) == cap(v.marks) {
			if err := v.budget.charge(int64(cap(v.marks))*16 + 128); err != nil {
				return err
			}
			m := make([]int, len(v.marks), 2*cap(v.marks)+16)
			copy(m, v.marks)
			v.marks = m
		}
		v.marks = append(v.marks, len(v.stack))
		return nil
	case 'N':
		return v.push(nil)
	case 0x88:
		return v.push(true)
	case 0x89:
		return v.push(false)
	case 'J', 'K', 'M', 'G', 0x8a, 0x8b:
		return v.number(op)
	case 'X', 0x8c, 0x8d: // BINUNICODE, SHORT_BINUNICODE, BINUNICODE8
		n, err := v.uint(width(op))
		if err != nil {
			return err
		}
		return v.str(n)
	case 'U', 'T': // SHORT_BINSTRING, BINSTRING: Python 2's str
		n, err := v.uint(width(op))
		if err != nil {
			return err
		}
		return v.str(n)
	case 'C', 'B', 0x8e: // SHORT_BINBYTES, BINBYTES, BINBYTES8
		n, err := v.uint(width(op))
		if err != nil {
			return err
		}
		p, err := v.text(n)
		if err != nil {
			return err
		}
		return v.push(p)
	case ')':
		return v.push(Tuple(nil))
	case 't':
		items, err := v.popMark()
		if err != nil {
			return err
		}
		return v.tuple(items)
	case 0x85, 0x86, 0x87:
		return v.tupleOf(int(op - 0x84))
	case ']':
		return v.make(48, &List{})
	case '}':
		return v.make(64, &Dict{})
	case 0x8f:
		return v.make(48, &Set{})
	case 'a':
		if len(v.stack)-1 < v.floor() {
			return fmt.Errorf("its pickle takes more from the stack than is there")
		}
		return v.extend(v.stack[len(v.stack)-1:], false)
	case 'e', 0x90: // APPENDS, ADDITEMS
		items, err := v.popMark()
		if err != nil {
			return err
		}
		return v.extend(items, true)
	case 's':
		if len(v.stack)-2 < v.floor() {
			return fmt.Errorf("its pickle takes more from the stack than is there")
		}
		items := v.stack[len(v.stack)-2:]
		v.stack = v.stack[:len(v.stack)-2]
		return v.setItems(items)
	case 'u':
		items, err := v.popMark()
		if err != nil {
			return err
		}
		return v.setItems(items)
	case 'q', 'r', 0x94: // BINPUT, LONG_BINPUT, MEMOIZE
		if op == 0x94 {
			return v.put(uint64(len(v.memo)))
		}
		i, err := v.uint(width(op))
		if err != nil {
			return err
		}
		return v.put(i)
	case 'h', 'j': // BINGET, LONG_BINGET
		i, err := v.uint(width(op))
		if err != nil {
			return err
		}
		return v.get(i)
	case 'c', 0x93: // GLOBAL, STACK_GLOBAL
		return v.global(op)
	case 'R':
		return v.reduce()
	case 0x81:
		return v.newObject()
	case 'b':
		return v.build()
	case 'Q': // BINPERSID
		id, err := v.pop()
		if err != nil {
			return err
		}
		t, ok := id.(Tuple)
		if !ok {
			return fmt.Errorf("a persistent id is a %s, a tuple is expected", typeName(id))
		}
		x, err := v.persist(t)
		if err != nil {
			return err
		}
		return v.push(x)
	}
	if name, ok := refusedOps[op]; ok {
		return fmt.Errorf("its pickle has the instruction %s, which is refused: %s", name[0], name[1])
	}
	return fmt.Errorf("its pickle has the unknown instruction %#02x", op)
}

// refusedOps are instructions of pickle that a file of weights does not need.
var refusedOps = map[byte][2]string{
	'i': {"INST", "it calls code"}, 'o': {"OBJ", "it calls code"}, 0x92: {"NEWOBJ_EX", "it calls code"},
	0x82: {"EXT1", "it calls registered code"}, 0x83: {"EXT2", "it calls registered code"}, 0x84: {"EXT4", "it calls registered code"},
	'P': {"PERSID", "torch.save writes BINPERSID"}, '0': {"POP", "torch.save writes none"}, '1': {"POP_MARK", "torch.save writes none"},
	'2': {"DUP", "torch.save writes none"}, 'I': {"INT", "it is of protocol 0"}, 'L': {"LONG", "it is of protocol 0"},
	'F': {"FLOAT", "it is of protocol 0"}, 'S': {"STRING", "it is of protocol 0"}, 'V': {"UNICODE", "it is of protocol 0"},
	'p': {"PUT", "it is of protocol 0"}, 'g': {"GET", "it is of protocol 0"}, 'd': {"DICT", "it is of protocol 0"},
	'l': {"LIST", "it is of protocol 0"}, 0x91: {"FROZENSET", "torch.load refuses it too"}, 0x96: {"BYTEARRAY8", "torch.load refuses it too"},
	0x97: {"NEXT_BUFFER", "its data is outside the file"}, 0x98: {"READONLY_BUFFER", "its data is outside the file"},
}

func (v *vm) make(cost int64, x any) error {
	if err := v.budget.charge(cost); err != nil {
		return err
	}
	return v.push(x)
}

func (v *vm) number(op byte) error {
	if err := v.budget.charge(8); err != nil {
		return err
	}
	switch op {
	case 'J':
		n, err := v.uint(4)
		if err != nil {
			return err
		}
		return v.push(int64(int32(n)))
	case 'K', 'M':
		n, err := v.uint(width(op))
		if err != nil {
			return err
		}
		return v.push(int64(n))
	case 'G':
		b := v.scratch[:8]
		if err := v.bytes(b); err != nil {
			return err
		}
		return v.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
	}
	n, err := v.uint(width(op)) // LONG1, LONG4
	if err != nil {
		return err
	}
	if n > 255 {
		return fmt.Errorf("its pickle holds an integer of %d bytes", n)
	}
	b := v.scratch[:n]
	if err := v.bytes(b); err != nil {
		return err
	}
	return v.long(b)
}

// width is the size of an instruction's argument in bytes.
func width(op byte) int {
	switch op {
	case 'X', 'T', 'B', 'r', 'j', 0x8b:
		return 4
	case 'M':
		return 2
	case 0x8d, 0x8e:
		return 8
	}
	return 1
}

// long pushes a two's complement integer.
func (v *vm) long(b []byte) error {
	if len(b) <= 8 {
		var u uint64
		for i, c := range b {
			u |= uint64(c) << (8 * i)
		}
		if n := len(b); n > 0 && n < 8 && b[n-1]&0x80 != 0 {
			u |= math.MaxUint64 << (8 * n)
		}
		return v.push(int64(u))
	}
	if err := v.budget.charge(int64(len(b))*4 + 128); err != nil {
		return err
	}
	be := make([]byte, len(b))
	for i, c := range b {
		be[len(b)-1-i] = c
	}
	n := new(big.Int).SetBytes(be)
	if b[len(b)-1]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	if n.IsInt64() {
		return v.push(n.Int64())
	}
	return v.push(n)
}

// extend appends items, which were above the list or set.
func (v *vm) extend(items []any, popped bool) error {
	if !popped {
		v.stack = v.stack[:len(v.stack)-1]
	}
	x, err := v.top()
	if err != nil {
		return err
	}
	var to *[]any
	switch x := x.(type) {
	case *List:
		to = &x.Items
	case *Set:
		to = &x.Items
	default:
		return fmt.Errorf("its pickle appends to a %s", typeName(x))
	}
	if need := len(*to) + len(items); need > cap(*to) {
		n := max(need, 2*cap(*to))
		if err := v.budget.charge(int64(n) * 16); err != nil {
			return err
		}
		s := make([]any, len(*to), n)
		copy(s, *to)
		*to = s
	}
	*to = append(*to, items...)
	return nil
}

func (v *vm) setItems(items []any) error {
	x, err := v.top()
	if err != nil {
		return err
	}
	d, ok := x.(*Dict)
	if !ok {
		return fmt.Errorf("its pickle sets items of a %s", typeName(x))
	}
	if len(items)%2 != 0 {
		return fmt.Errorf("its pickle sets a key without a value")
	}
	for i := 0; i < len(items); i += 2 {
		if err := v.set(d, items[i], items[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (v *vm) set(d *Dict, key, value any) error {
	if _, ok := key.(Tuple); ok { // becomes text, several times
		if err := v.budget.charge(16 << 10); err != nil {
			return err
		}
	}
	k, err := hashable(key)
	if err != nil {
		return err
	}
	if i := d.find(key); i >= 0 {
		d.Items[i].Value = value
		return nil
	}
	if len(d.Items) == cap(d.Items) {
		n := 2*cap(d.Items) + 4
		if err := v.budget.charge(int64(n) * 32); err != nil {
			return err
		}
		s := make([]Item, len(d.Items), n)
		copy(s, d.Items)
		d.Items = s
	}
	d.Items = append(d.Items, Item{key, value})
	if len(d.Items) > linear {
		if d.index == nil {
			if err := v.budget.charge(linear*96 + 256); err != nil {
				return err
			}
			d.index = make(map[any]int, 2*linear)
			for i := range d.Items {
				k, _ := hashable(d.Items[i].Key)
				d.index[k] = i
			}
			return nil
		}
		if err := v.budget.charge(96); err != nil {
			return err
		}
		d.index[k] = len(d.Items) - 1
	}
	return nil
}

// global pushes a name; whether it may be used is decided when it is looked up.
func (v *vm) global(op byte) error {
	var module, name string
	if op == 'c' {
		var err error
		if module, err = v.line(); err != nil {
			return err
		}
		if name, err = v.line(); err != nil {
			return err
		}
	} else {
		for _, to := range []*string{&name, &module} {
			x, err := v.pop()
			if err != nil {
				return err
			}
			s, ok := x.(string)
			if !ok || len(s) > 256 {
				return fmt.Errorf("the name of a global is a %s", typeName(x))
			}
			*to = s
		}
	}
	if err := v.budget.charge(3*int64(len(module)+len(name)) + 96); err != nil {
		return err
	}
	if module == "__builtin__" {
		module = "builtins"
	}
	x, err := lookup(module, name, v.script)
	if err != nil {
		return err
	}
	return v.push(x)
}

// named reports whether the module is one of the list or below one.
func below(module string, tops ...string) bool {
	for _, top := range tops {
		if module == top || strings.HasPrefix(module, top+".") {
			return true
		}
	}
	return false
}
