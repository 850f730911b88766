//go:build !cgo

package abi

// LoadDist says that libtorch cannot be called.
func LoadDist() error { return errNoCgo }

func TCPStore(host string, port int, server bool, workers int, timeout int64) Result { return refuse() }
func PrefixStore(store uint64, prefix string) Result                                 { return refuse() }
func StoreSet(store uint64, key string, value []byte) Result                         { return refuse() }
func StoreGet(store uint64, key string, timeout int64) Result                        { return refuse() }
func StoreAdd(store uint64, key string, n int64) Result                              { return refuse() }
func StoreDelete(store uint64, key string) Result                                    { return refuse() }
func StoreFree(store uint64) Result                                                  { return refuse() }
func GlooGroup(store uint64, rank, size int, where string, host bool, timeout int64) Result {
	return refuse()
}
func EmptyGroup(store uint64, rank, size int) Result       { return refuse() }
func GroupTimeout(group uint64, timeout int64) Result      { return refuse() }
func GroupFree(group uint64) Result                        { return refuse() }
func Wait(work uint64, timeout int64) Result               { return refuse() }
func Done(work uint64) Result                              { return refuse() }
func WorkFree(work uint64) Result                          { return refuse() }
func Sync(group uint64, tensors []uint64, root int) Result { return refuse() }
func Verify(group uint64, params []uint64) Result          { return refuse() }
func Prepare(reducer uint64, outputs []uint64) Result      { return refuse() }
func ReducerFree(reducer uint64) Result                    { return refuse() }
func Start(group uint64, kind int, tensors, others []uint64, op, root int, timeout int64) Result {
	return refuse()
}
func Reducer(group uint64, params []uint64, firstBucket, bucket int64, findUnused bool) Result {
	return refuse()
}
