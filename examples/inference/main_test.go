package main

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
)

// Every goroutine gets the answer to its own image, bad requests and cancelled ones hurt nobody else, and nothing is left behind.
func TestConcurrentRequests(t *testing.T) {
	s, err := NewService(0)
	require.NoError(t, err)
	defer s.Close()
	const kinds, callers, each = 8, 32, 20
	images, want := make([][]float32, kinds), make([][]float32, kinds)
	for k := range images {
		images[k] = make([]float32, 3*32*32)
		for i := range images[k] {
			images[k][i] = float32((i*7+k*13)%31)/31 - 0.5
		}
		want[k], err = s.Classify(t.Context(), images[k], 32, 32)
		require.NoError(t, err)
		require.Len(t, want[k], 10)
	}
	require.NotEqual(t, want[0], want[1])
	live := torch.Live()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()

	var done sync.WaitGroup
	for c := range callers {
		done.Go(func() {
			for i := range each {
				k := (c + i) % kinds
				switch i % 10 {
				case 3:
					_, err := s.Classify(t.Context(), images[k][1:], 32, 32)
					if err == nil {
						t.Error("an image of a wrong length was taken")
					}
				case 7:
					if _, err := s.Classify(cancelled, images[k], 32, 32); err != context.Canceled {
						t.Errorf("a cancelled request: %v", err)
					}
				default:
					got, err := s.Classify(t.Context(), images[k], 32, 32)
					if err != nil {
						t.Error(err)
						return
					}
					for j := range got {
						if got[j] != want[k][j] {
							t.Errorf("caller %d: image %d, class %d: %v, want %v", c, k, j, got[j], want[k][j])
							return
						}
					}
				}
			}
		})
	}
	done.Wait()
	require.Equal(t, live, torch.Live())
}
