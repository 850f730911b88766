package command

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/data/pixel/parity"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/audit"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/metric/scorefile"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/spml/vlm"
	weightsOf "github.com/gospml/gospml/spml/weights"
	"github.com/gospml/gospml/third_party/native"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/pth"
	"github.com/gospml/gospml/torch/safetensors"
)

// Exit codes, after sysexits.h; `spml help exit-codes` prints them.
const (
	exitOK       = 0
	exitOther    = 1
	exitUsage    = 2
	exitCommand  = 64
	exitData     = 65
	exitMissing  = 69
	exitInternal = 70
	exitMemory   = 71
	exitIO       = 74
	exitResume   = 75
	exitInt      = 130
)

const exitCodesText = `Exit codes:
    0  done
    1  any other failure
    2  wrong usage or settings
   64  there is no such command
   65  wrong data (a damaged or missing image, a bad table or weights file) or a loss that is not finite
   69  libtorch, one of our libraries or a device is missing; run ` + "`spml setup`" + ` or ` + "`spml doctor`" + `
   70  internal error, please report it
   71  out of memory
   74  a file could not be read or written
   75  stopped on request or by a budget; --resume goes on
  130  interrupted
`

// usageError marks a wrong command line.
type usageError struct{ error }

func isUsage(err error) bool {
	var u usageError
	return errors.As(err, &u) || strings.HasPrefix(err.Error(), "unknown command")
}

// exitCode classifies an error. Order matters: a library that is absent is also a file that does not exist.
func exitCode(ctx context.Context, err error) int {
	var (
		setting *config.Error
		format  *data.FormatError
		broken  data.Broken
		lossy   *data.LossyError
		weights *safetensors.FormatError
		score   *metric.ScoreError
		matrix  *scorefile.FormatError
		array   *npy.FormatError
		load    *nn.LoadError
		pickled *pth.FormatError
		maths   *torch.Error
		path    *fs.PathError
		absent  *weightsOf.MissingError
		unnamed *weightsOf.UnknownError
		hash    *weightsOf.HashError
		network net.Error
		command *noSuchCommand
	)
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	var stopped *train.StoppedError
	var errno syscall.Errno
	var fault *train.PanicError
	var busy *rundir.BusyError
	switch {
	case errors.As(err, &busy):
		return exitIO
	case errors.As(err, &fault):
		return exitInternal
	case errors.As(err, &errno) && errors.As(err, &stopped): // the checkpoint could not be written
		return exitIO
	case errors.As(err, &stopped) && !errors.Is(err, context.Canceled), is(train.ErrStop):
		return exitResume
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return exitInt
	case errors.As(err, &command):
		return exitCommand
	case isUsage(err), errors.As(err, &setting), errors.As(err, &unnamed), is(rundir.ErrExists, vlm.ErrSettings):
		return exitUsage
	case is(native.ErrNotFound, torch.ErrLibrary, pixel.ErrLibrary, parity.ErrNoPillow, cuda.ErrNoDevice):
		return exitMissing
	case errors.As(err, &absent):
		return exitMissing
	case errors.As(err, &hash):
		return exitData
	case is(torch.ErrOutOfMemory):
		return exitMemory
	case errors.As(err, &maths): // any other error of tensor maths is a mistake of ours
		return exitInternal
	case errors.As(err, &format), errors.As(err, &broken), errors.As(err, &lossy), errors.As(err, &weights),
		errors.As(err, &score), errors.As(err, &matrix), errors.As(err, &load),
		errors.As(err, &pickled), errors.As(err, &array),
		is(pixel.ErrDamaged, pixel.ErrTooLarge, pixel.ErrUnknownFormat, metric.ErrNotProbability, errBadPhotos, train.ErrNotFinite, train.ErrData, clip.ErrFormat, audit.ErrDecisions):
		return exitData
	case errors.As(err, &path), errors.As(err, &errno), errors.As(err, &network):
		return exitIO
	}
	return exitOther
}
