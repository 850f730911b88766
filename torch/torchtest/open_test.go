package torchtest

// OpenDevice is for TestMain.
func OpenDevice() error { return openDevice() }
