//go:build !cgo

package abi

import "errors"

var errNoCgo = errors.New("this program was built with CGO_ENABLED=0 and cannot call CUDA")

// Driver leaves the answer to package torch, which says that there is no cgo.
func Driver() string { return "" }

func DeviceCount() int                         { return 0 }
func Open(preload []string, path string) error { return errNoCgo }
func CompiledFor() string                      { return "" }
func WaitPressure() bool                       { return false }
func AnswerPressure(handles []uint64)          {}

func refuse() Result { return Result{Message: errNoCgo.Error()} }

func Properties(device int) (Result, string)                               { return refuse(), "" }
func Synchronize(device int) Result                                        { return refuse() }
func Stream(device, priority int) Result                                   { return refuse() }
func CurrentStream(device int) Result                                      { return refuse() }
func SetStream(id int64, device int) Result                                { return refuse() }
func StreamQuery(id int64, device int) Result                              { return refuse() }
func StreamSynchronize(id int64, device int) Result                        { return refuse() }
func Event(timing bool) Result                                             { return refuse() }
func EventRecord(event uint64, stream int64, device int) Result            { return refuse() }
func EventWait(event uint64, stream int64, device int) Result              { return refuse() }
func EventQuery(event uint64) Result                                       { return refuse() }
func EventSynchronize(event uint64) Result                                 { return refuse() }
func EventElapsed(from, to uint64) Result                                  { return refuse() }
func EventFree(event uint64) Result                                        { return refuse() }
func Graph() Result                                                        { return refuse() }
func GraphBegin(graph, shared uint64) Result                               { return refuse() }
func GraphEnd(graph uint64) Result                                         { return refuse() }
func GraphReplay(graph uint64) Result                                      { return refuse() }
func GraphFree(graph uint64) Result                                        { return refuse() }
func MemoryStats(device int) Result                                        { return refuse() }
func MemoryInfo(device int) Result                                         { return refuse() }
func EmptyCache() Result                                                   { return refuse() }
func ResetPeak(device int) Result                                          { return refuse() }
func SetFraction(device int, fraction float64) Result                      { return refuse() }
func NVML(device int) (NVMLStatus, string)                                 { return NVMLStatus{}, errNoCgo.Error() }
func AttachNCCL(group, store uint64, rank, size int, timeout int64) Result { return refuse() }
func Ready() Result                                                        { return refuse() }
