package clip

import (
	"errors"
	"fmt"
	"os"
)

// ErrChanged is wrapped by the error of a model whose mapped weights were changed in place.
var ErrChanged = errors.New("the weights have changed under the model")

// held is a mapped file as it was when it was opened. The descriptor shows that file, also when its name leads to a
// newer one.
type held struct {
	f  *os.File
	at os.FileInfo
}

// hold opens a file to be mapped; nil where others than its owner, who runs this program, may change it: it is read
// then.
func hold(path string) *held {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Mode().Perm()&0o022 != 0 || !ownedByUs(st) {
		f.Close()
		return nil
	}
	return &held{f, st}
}

// check says whether the file is still as long and as old as it was. A page of a file that was cut short cannot be
// read: the system ends the process. So work does not begin on such a file; one that is cut while work runs is beyond
// any program's help.
func (h *held) check() error {
	st, err := h.f.Stat()
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrChanged, h.f.Name(), err)
	}
	if st.Size() != h.at.Size() || !st.ModTime().Equal(h.at.ModTime()) {
		return fmt.Errorf("%w: %s was written to in place; open the model again (to replace a file, write beside it and rename)", ErrChanged, h.f.Name())
	}
	return nil
}
