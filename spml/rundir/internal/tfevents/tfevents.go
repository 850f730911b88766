// Package tfevents writes TensorBoard event files: TFRecords of Event messages (tensorflow/core/util/event.proto). A
// Writer belongs to one goroutine.
package tfevents

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"
)

// Scalar is one value of a curve.
type Scalar struct {
	Tag   string
	Value float64 // written as float32, as TensorBoard keeps it
}

// Writer appends to one event file.
type Writer struct {
	f   *os.File
	now func() time.Time
}

// Open starts a new event file in a folder. The steps from firstStep on of older files there count no more:
// TensorBoard drops what a run that was
// stopped wrote after the checkpoint that it went on from.
func Open(dir string, firstStep int64) (*Writer, error) { return open(dir, firstStep, time.Now) }

func open(dir string, firstStep int64, now func() time.Time) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	// TensorBoard reads files whose names hold "tfevents" in the order of their names.
	var w *Writer
	for n := 0; w == nil; n++ {
		f, err := os.OpenFile(
			filepath.Join(dir, fmt.Sprintf("events.out.tfevents.%010d.%d", now().Unix(), n)),
			os.O_CREATE|os.O_EXCL|os.O_WRONLY,
			0o644,
		)
		if err == nil {
			w = &Writer{f, now}
		} else if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	const fileVersion, sessionLog, status, started = 3, 7, 1, 1
	err := w.event(0, text(nil, fileVersion, "brain.Event:2"))
	if err == nil {
		err = w.event(firstStep, text(nil, sessionLog, string(varint(nil, status, started))))
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Write appends the values of a step.
func (w *Writer) Write(step int64, scalars ...Scalar) error {
	const summary, value, tag, simpleValue, fixed32 = 5, 1, 1, 2, 5
	var values []byte
	for _, s := range scalars {
		v := text(nil, tag, s.Tag)
		v = binary.AppendUvarint(v, simpleValue<<3|fixed32)
		v = binary.LittleEndian.AppendUint32(v, math.Float32bits(float32(s.Value)))
		values = text(values, value, string(v))
	}
	return w.event(step, text(nil, summary, string(values)))
}

// Close closes the file.
func (w *Writer) Close() error { return w.f.Close() }

// event writes a record: its length, what it holds, and a masked checksum of each.
func (w *Writer) event(step int64, what []byte) error {
	const wallTime, stepField, fixed64 = 1, 2, 1
	now := w.now()
	b := binary.AppendUvarint(nil, wallTime<<3|fixed64)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(now.Unix())+float64(now.Nanosecond())/1e9))
	if step != 0 {
		b = varint(b, stepField, uint64(step))
	}
	b = append(b, what...)
	r := binary.LittleEndian.AppendUint64(nil, uint64(len(b)))
	r = binary.LittleEndian.AppendUint32(r, masked(r))
	r = append(r, b...)
	r = binary.LittleEndian.AppendUint32(r, masked(b))
	_, err := w.f.Write(r)
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the checksum of TFRecord: a CRC of data that holds CRCs is weak, so it is rotated and shifted.
func masked(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

func varint(b []byte, field, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, field<<3), v)
}

func text(b []byte, field uint64, s string) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(b, field<<3|2), uint64(len(s))), s...)
}
