package pth

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/gospml/gospml/internal/plain"
)

// Format is the container of a file.
type Format string

// The containers.
const (
	Zip         Format = "zip"         // torch.save since 1.6
	Legacy      Format = "legacy"      // torch.save before, or with _use_new_zipfile_serialization=False
	TorchScript Format = "torchscript" // torch.jit.save
)

// File is an open file whose structure has been read and checked. It is safe for use by many goroutines until Close.
type File struct {
	r         io.ReaderAt
	closer    io.Closer // nil for Parse
	path      string
	size      int64
	format    Format
	root      any
	bigEndian bool
	storages  []*Storage
	left      int64 // of the memory that reading may take
}

// FormatError says how a file breaks the format's rules or what it holds that is refused.
type FormatError struct {
	Path   string // empty for Parse
	Reason string
}

func (e *FormatError) Error() string {
	if e.Path == "" {
		return plain.Message("cannot read the PyTorch file: " + e.Reason)
	}
	return plain.Message("cannot read " + plain.Text(e.Path) + ": " + e.Reason)
}

func (f *File) invalid(format string, args ...any) error {
	return &FormatError{Path: f.path, Reason: fmt.Sprintf(format, args...)}
}

// defaultLimit is what SetLimit set.
var defaultLimit atomic.Int64

// SetLimit lets the structure of each file that is opened in this process from now on take up to bytes of memory, if
// that is more than [Open] allows by itself, and returns the limit before. It is for programs whose user vouches for
// files with very many objects; 0 is the default. It is safe from many goroutines.
func SetLimit(bytes int64) (before int64) { return defaultLimit.Swap(max(bytes, 0)) }

// Open opens a file and reads its structure. The file stays open until Close. The structure may take the file's size
// and 1 MB of memory, and what tensors cost: up to 3 KB for each, 256 MB for all.
func Open(path string) (*File, error) { return OpenLimit(path, 0) }

// OpenLimit is Open for a trusted file whose structure may take up to limit bytes of memory, if that is more than Open
// allows.
func OpenLimit(path string, limit int64) (*File, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file (%s)", path, st.Mode())
	}
	r, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if st, err = r.Stat(); err != nil {
		r.Close()
		return nil, err
	}
	f := &File{r: r, closer: r, path: path, size: st.Size()}
	if err := f.read(limit); err != nil {
		r.Close()
		return nil, err
	}
	return f, nil
}

// Parse is Open for size bytes behind r, which must allow reads from many goroutines if the File is used so.
func Parse(r io.ReaderAt, size int64) (*File, error) {
	f := &File{r: r, size: size}
	if err := f.read(0); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) read(limit int64) error {
	b := newBudget(max(limit, defaultLimit.Load(), f.size+slack))
	var magic [4]byte
	if f.size < int64(len(magic)) {
		return f.invalid("%d bytes are no PyTorch file: is it truncated?", f.size)
	}
	err := readFull(f.r, magic[:], 0)
	if err == nil {
		if string(magic[:]) == "PK\x03\x04" {
			err = f.readZip(b)
		} else {
			err = f.readLegacy(b, magic)
		}
	}
	var system *systemError
	if errors.As(err, &system) {
		if f.path == "" {
			return system.error
		}
		return fmt.Errorf("reading %s: %w", f.path, system.error)
	}
	if err != nil {
		return f.invalid("%v", err)
	}
	f.left = b.left
	return nil
}

// readZip reads <name>/data.pkl of an archive, whose storages are the entries <name>/data/<key>.
func (f *File) readZip(b *budget) error {
	records, order, err := readZip(f.r, f.size, b)
	if err != nil {
		return err
	}
	if len(order) == 0 {
		return errors.New("the archive is empty")
	}
	top, _, ok := strings.Cut(order[0].name, "/")
	main := records[top+"/data.pkl"]
	if !ok || main == nil {
		return fmt.Errorf("the archive has no %s: it was not written by PyTorch", cut(top+"/data.pkl"))
	}
	f.format = Zip
	if records[top+"/constants.pkl"] != nil {
		f.format = TorchScript
	}
	version, err := f.text(records[top+"/version"])
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(version); version != "" && (err != nil || n < 1 || n > 10) {
		return fmt.Errorf("the archive is of version %q: 1 to 10 are read", version)
	}
	switch order, err := f.text(records[top+"/byteorder"]); {
	case err != nil:
		return err
	case order == "big":
		f.bigEndian = true
	case order != "" && order != "little":
		return fmt.Errorf("the byte order is %q", order)
	}
	if err := main.stored(); err != nil {
		return err
	}
	seen := map[string]*Storage{}
	v := newVM(f.r, main.data, main.size, b)
	v.script = f.format == TorchScript
	v.persist = func(id Tuple) (any, error) {
		s, err := newStorage(id, b)
		if err != nil {
			return nil, err
		}
		if len(id) == 6 && id[5] != nil {
			return nil, fmt.Errorf("storage %q is a view, which archives do not have", cut(s.Key))
		}
		if have := seen[s.Key]; have != nil {
			if have.Dtype != s.Dtype || have.Numel != s.Numel {
				return nil, fmt.Errorf("storage %q is once %d of %s and once %d of %s", cut(s.Key), have.Numel, have.Dtype, s.Numel, s.Dtype)
			}
			return have, nil
		}
		e := records[top+"/data/"+s.Key]
		if e == nil {
			return nil, fmt.Errorf("storage %q is not in the archive", cut(s.Key))
		}
		if err := e.stored(); err != nil {
			return nil, err
		}
		if e.size != s.Size() {
			return nil, fmt.Errorf("storage %q has %d bytes, %d of %s take %d", cut(s.Key), e.size, s.Numel, s.Dtype, s.Size())
		}
		s.offset = e.data
		seen[s.Key] = s
		f.storages = append(f.storages, s)
		return s, nil
	}
	if f.root, err = v.run(); err != nil {
		return err
	}
	if v.left != 0 {
		return fmt.Errorf("%d bytes follow the end of the pickle", v.left)
	}
	return nil
}

// text reads a short entry, "" if it is absent.
func (f *File) text(e *record) (string, error) {
	if e == nil {
		return "", nil
	}
	if err := e.stored(); err != nil {
		return "", err
	}
	if e.size > 64 {
		return "", fmt.Errorf("entry %q has %d bytes, a word is expected", cut(e.name), e.size)
	}
	p := make([]byte, e.size)
	if err := readFull(f.r, p, e.data); err != nil {
		return "", err
	}
	return strings.TrimSpace(string(p)), nil
}

func newVM(r io.ReaderAt, at, size int64, b *budget) *vm {
	return &vm{r: bufio.NewReaderSize(io.NewSectionReader(r, at, size), 16<<10), left: size, tensor: size, budget: b, persist: noStorage}
}

func noStorage(Tuple) (any, error) {
	return nil, errors.New("a storage stands where none can be, beside the structure")
}

// newStorage reads a persistent id: ("storage", class, key, location, number of elements[, view]).
func newStorage(id Tuple, b *budget) (*Storage, error) {
	if len(id) < 5 || len(id) > 6 {
		return nil, fmt.Errorf("a persistent id has %d values, 5 or 6 are expected", len(id))
	}
	if id[0] != any("storage") {
		if s, ok := id[0].(string); ok {
			return nil, fmt.Errorf("a persistent id is of %q: only storages are read", cut(s))
		}
		return nil, fmt.Errorf("a persistent id begins with a %s", typeName(id[0]))
	}
	class, ok1 := id[1].(Class)
	key, ok2 := id[2].(string)
	location, ok3 := id[3].(string)
	numel, ok4 := id[4].(int64)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return nil, fmt.Errorf("a storage is made of a %s, a %s, a %s and a %s", typeName(id[1]), typeName(id[2]), typeName(id[3]), typeName(id[4]))
	}
	if err := b.charge(320 + 3*int64(len(key))); err != nil {
		return nil, err
	}
	s := &Storage{Key: key, Device: location, Numel: numel}
	if class != "torch.storage.UntypedStorage" {
		d, ok := storageDtypes[strings.TrimPrefix(string(class), "torch.")]
		if !ok {
			return nil, fmt.Errorf("storage %q is of the class %s", cut(key), class)
		}
		s.Dtype = d
	}
	if numel < 0 || numel > (1<<62)/s.itemSize() {
		return nil, fmt.Errorf("storage %q has %d elements", cut(key), numel)
	}
	return s, nil
}

const (
	legacyMagic   = "1950a86a20f9469cfc6c" // hexadecimal
	legacyVersion = 1001
)

// readLegacy reads the stream of before 1.6: the pickles of a magic number, a version, facts about the machine, the
// structure and the storages' keys, then each storage's number of elements and its bytes.
func (f *File) readLegacy(b *budget, magic [4]byte) error {
	if magic[0] != 0x80 {
		return f.notLegacy(magic)
	}
	v := newVM(f.r, 0, f.size, b)
	number, err := v.run()
	if err != nil {
		return err
	}
	if n, ok := number.(*big.Int); !ok || n.Text(16) != legacyMagic {
		return errors.New("it is a pickle, but not one of torch.save: its magic number is missing")
	}
	version, err := v.run()
	if err != nil {
		return err
	}
	if version != any(int64(legacyVersion)) {
		return fmt.Errorf("its version is %v, %d is read", version, legacyVersion)
	}
	machine, err := v.run()
	if err != nil {
		return err
	}
	facts, ok := machine.(*Dict)
	if !ok {
		return fmt.Errorf("the facts about the machine are a %s", typeName(machine))
	}
	if little, _ := facts.Get("little_endian"); little == any(false) {
		f.bigEndian = true
	}
	f.format = Legacy
	seen := map[string]*Storage{}
	views := map[string]*Storage{}
	v.persist = func(id Tuple) (any, error) {
		s, err := newStorage(id, b)
		if err != nil {
			return nil, err
		}
		root := seen[s.Key]
		if root == nil {
			root = s
			seen[s.Key] = s
			f.storages = append(f.storages, s)
		} else if root.Dtype != s.Dtype || root.Numel != s.Numel {
			return nil, fmt.Errorf("storage %q is once %d of %s and once %d of %s", cut(s.Key), root.Numel, root.Dtype, s.Numel, s.Dtype)
		}
		if len(id) == 5 || id[5] == nil {
			return root, nil
		}
		return view(id[5], root, views, b)
	}
	if f.root, err = v.run(); err != nil {
		return err
	}
	v.persist = noStorage
	keys, err := v.run()
	if err != nil {
		return err
	}
	list, ok := keys.(*List)
	if !ok {
		return fmt.Errorf("the storages' keys are a %s", typeName(keys))
	}
	if len(list.Items) != len(f.storages) {
		return fmt.Errorf("it holds %d storages and refers to %d", len(list.Items), len(f.storages))
	}
	return f.place(list.Items, seen, f.size-v.left)
}

// place finds each storage's bytes behind the pickles.
func (f *File) place(keys []any, seen map[string]*Storage, at int64) error {
	for _, k := range keys {
		key, _ := k.(string)
		s := seen[key]
		if s == nil {
			return fmt.Errorf("it holds storage %q, to which nothing refers, or twice", cut(key))
		}
		delete(seen, key)
		if f.size-at < 8 {
			return fmt.Errorf("it ends before storage %q: is it truncated?", cut(key))
		}
		var b [8]byte
		if err := readFull(f.r, b[:], at); err != nil {
			return err
		}
		n := binary.LittleEndian.Uint64(b[:])
		if f.bigEndian {
			n = binary.BigEndian.Uint64(b[:])
		}
		if n != uint64(s.Numel) {
			return fmt.Errorf("storage %q has %d elements, its tensors expect %d", cut(key), n, s.Numel)
		}
		at += 8
		if s.Size() > f.size-at {
			return fmt.Errorf("storage %q takes %d bytes where %d are left: is it truncated?", cut(key), s.Size(), f.size-at)
		}
		s.offset = at
		at += s.Size()
	}
	if at != f.size {
		return fmt.Errorf("%d bytes follow the last storage", f.size-at)
	}
	return nil
}

// view reads the (key, offset, number of elements) of a storage within another.
func view(x any, root *Storage, views map[string]*Storage, b *budget) (*Storage, error) {
	t, ok := x.(Tuple)
	if !ok || len(t) != 3 {
		return nil, fmt.Errorf("a view of storage %q is a %s, 3 values are expected", cut(root.Key), typeName(x))
	}
	key, ok1 := t[0].(string)
	start, ok2 := t[1].(int64)
	numel, ok3 := t[2].(int64)
	if !ok1 || !ok2 || !ok3 {
		return nil, fmt.Errorf("a view of storage %q is made of a %s, a %s and a %s", cut(root.Key), typeName(t[0]), typeName(t[1]), typeName(t[2]))
	}
	if start < 0 || numel < 0 || start > root.Numel-numel {
		return nil, fmt.Errorf("the view %q of %d elements from %d reaches beyond storage %q of %d", cut(key), numel, start, cut(root.Key), root.Numel)
	}
	if have := views[key]; have != nil {
		if have.root != root || have.start != start || have.Numel != numel {
			return nil, fmt.Errorf("the view %q is given twice, differently", cut(key))
		}
		return have, nil
	}
	if err := b.charge(320); err != nil {
		return nil, err
	}
	s := &Storage{Key: key, Dtype: root.Dtype, Device: root.Device, Numel: numel, root: root, start: start}
	views[key] = s
	return s, nil
}

// notLegacy says what a file that begins otherwise is.
func (f *File) notLegacy(magic [4]byte) error {
	tar := make([]byte, min(512, f.size))
	if err := readFull(f.r, tar, 0); err != nil {
		return err
	}
	switch {
	case len(tar) == 512 && string(tar[257:262]) == "ustar":
		return errors.New("it is a tar archive of PyTorch 0.1, which torch.load(weights_only=True) refuses too: save it again with a newer PyTorch")
	case strings.HasPrefix(string(tar), "version https://git-lfs"):
		return errors.New("it is a Git LFS pointer, not the file itself: fetch it with git lfs pull")
	case magic[0] == '<':
		return errors.New("it is a web page, not a PyTorch file: look at where it was downloaded from")
	case len(tar) > 8 && tar[8] == '{':
		return errors.New("it begins as a safetensors file: read it as one")
	}
	return fmt.Errorf("it begins with %q, neither a zip archive nor a pickle", magic[:])
}

// Close closes the file that Open opened. Reads after it fail; what they returned before stays valid.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Format returns the container.
func (f *File) Format() Format { return f.format }

// Root returns the structure; see the types of this package. It must not be changed.
func (f *File) Root() any { return f.root }

// Storages returns the storages in the order in which the structure first refers to them. Views, which only files of
// before PyTorch 0.4 have, are not listed; their root is.
func (f *File) Storages() []*Storage { return append([]*Storage(nil), f.storages...) }

// String names the file.
func (f *File) String() string {
	if f.path == "" {
		return "the PyTorch file"
	}
	return f.path
}
