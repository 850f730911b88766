package model

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

const side = 32

// saved writes a model folder of an untrained network with a head.
func saved(t *testing.T, head HeadSpec) string {
	dir := t.TempDir()
	g := torch.NewGenerator(4)
	body, err := backbone.New("small_cnn", 3, nn.Generator(g))
	require.NoError(t, err)
	m, err := WithHead(body, head, 3, g)
	require.NoError(t, err)
	require.NoError(t, Save(dir, Config{
		Architecture: "small_cnn", NumClasses: 3, NumFeatures: 128, LabelNames: []string{"a", "b", "c"}, Threshold: 0.5, Method: "an", HeadSpec: head,
		PretrainedCfg: Input{InputSize: [3]int{3, side, side}, Interpolation: "bilinear", CropMode: "squash", CropPct: 1, Mean: pixel.ImageNetMean, Std: pixel.ImageNetStd},
	}, nn.StateDictOf(m)))
	return dir
}

func tagger(t *testing.T, dir string, workers int) *Tagger {
	tg, err := OpenTagger(dir, TaggerOptions{Workers: workers, Device: "cpu"})
	require.NoError(t, err)
	return tg
}

// photo draws a picture of noise with other sides than the network's.
func photo(t *testing.T, seed uint32) []byte {
	g := random.New(seed)
	m := image.NewRGBA(image.Rect(0, 0, 40, 24))
	for i := range m.Pix {
		m.Pix[i] = byte(256 * g.RandomSample())
		if i%4 == 3 {
			m.Pix[i] = 255
		}
	}
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, m))
	return b.Bytes()
}

// A batch gives each photo what it gets alone, a photo that cannot be read its own error, and the others do not notice.
func TestTagBatch(t *testing.T) {
	for _, head := range []HeadSpec{{}, {Head: HeadDecoder, Dim: 16, Projection: -1}, {Head: HeadMLDecoder, Dim: 16}} {
		tg := tagger(t, saved(t, head), 2)
		var photos [][]byte
		for i := range 7 {
			photos = append(photos, photo(t, uint32(i)))
		}
		photos[3] = []byte("no photo")
		got, err := tg.TagBatch(context.Background(), photos)
		require.NoError(t, err)
		require.Len(t, got, len(photos))
		for i, p := range photos {
			want, err := tg.Tag(context.Background(), p)
			if i == 3 {
				require.Error(t, err)
				require.EqualError(t, got[i].Err, err.Error())
				require.Nil(t, got[i].Labels)
				continue
			}
			require.NoError(t, err)
			require.NoError(t, got[i].Err)
			require.Len(t, got[i].Labels, 3)
			for k := range want {
				require.Equal(t, want[k].Name, got[i].Labels[k].Name)
				require.InDelta(t, want[k].Probability, got[i].Labels[k].Probability, 1e-5)
			}
		}
		got, err = tg.TagBatch(context.Background(), nil)
		require.NoError(t, err)
		require.Empty(t, got)
		got, err = tg.TagBatch(context.Background(), photos[3:4])
		require.NoError(t, err)
		require.Error(t, got[0].Err)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err = tg.TagBatch(ctx, photos)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, tg.Close())
		_, err = tg.TagBatch(context.Background(), photos)
		require.ErrorIs(t, err, torch.ErrPoolClosed)
	}
}

// Closing a tagger has a deadline, and what was in work keeps what it needs until it ends.
func TestCloseTaggerInWork(t *testing.T) {
	tagger, photo := tagger(t, saved(t, HeadSpec{}), 1), photo(t, 1)
	started, release, answer := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		answer <- tagger.pool.Run(context.Background(), func() error {
			close(started)
			<-release
			_, err := tagger.input(photo)
			return err
		})
	}()
	<-started
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, tagger.CloseContext(ctx), context.DeadlineExceeded)
	_, err := tagger.Tag(context.Background(), photo)
	require.ErrorIs(t, err, torch.ErrPoolClosed)
	close(release)
	require.NoError(t, <-answer)
	require.NoError(t, tagger.Close())
	require.Eventually(t, func() bool { return len(tagger.spare) == 0 }, time.Second, time.Millisecond, "its decoders are freed")
}

// A head from outside trains nothing here, but its folder opens like any other, and names are taken once.
func TestRegisterHead(t *testing.T) {
	require.Error(t, RegisterHead(HeadDecoder, nil))
	require.Error(t, RegisterHead(HeadLinear, func(backbone.Model, HeadSpec, int, *torch.Generator) (backbone.Model, error) { return nil, nil }))
	require.NoError(t, RegisterHead("test-decoder", heads.by[HeadMLDecoder]))
	dir := saved(t, HeadSpec{Head: "test-decoder", Dim: 8})
	tg := tagger(t, dir, 1)
	_, err := tg.Tag(context.Background(), photo(t, 2))
	require.NoError(t, err)
	_, err = tg.Explain(context.Background(), photo(t, 2))
	require.ErrorIs(t, err, ErrData)
	require.ErrorContains(t, err, "test-decoder has no map")
	require.NoError(t, tg.Close())
	delete(heads.by, "test-decoder")
	_, err = OpenTagger(dir, TaggerOptions{})
	require.ErrorContains(t, err, `no head is called "test-decoder"`)
}

// What a folder lacks is an error of opening it, not a crash of the first photo.
func TestOpenDamaged(t *testing.T) {
	dir := saved(t, HeadSpec{})
	require.NoError(t, os.WriteFile(filepath.Join(dir, WeightsFile), []byte("no weights"), 0o644))
	_, err := OpenTagger(dir, TaggerOptions{})
	require.ErrorContains(t, err, WeightsFile)
	dir = saved(t, HeadSpec{Head: HeadDecoder, Dim: 16, Projection: -1})
	require.NoError(t, os.Remove(filepath.Join(dir, WeightsFile)))
	_, err = OpenTagger(dir, TaggerOptions{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = OpenTagger(t.TempDir(), TaggerOptions{})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestTaggingNeedsNoTrainer: what only tags links no trainer and no label estimators.
func TestTaggingNeedsNoTrainer(t *testing.T) {
	b, err := exec.Command("go", "list", "-deps", "github.com/gospml/gospml/spml/model").Output()
	require.NoError(t, err)
	deps := strings.Fields(string(b))
	require.Contains(t, deps, "github.com/gospml/gospml/spml/backbone")
	for _, trainer := range []string{"train", "label", "loss", "method", "vlm"} {
		require.NotContains(t, deps, "github.com/gospml/gospml/spml/"+trainer)
	}
}
