package config

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWarmupThatIsProposed: the error of a run too short for em-apl proposes a run that can be trained.
func TestWarmupThatIsProposed(t *testing.T) {
	resolve := func(dataSet string, epochs int, params map[string]any) error {
		c, err := FromSettings(map[string]any{
			"data": "shapes", "method": "em-apl", "data_set": dataSet, "epochs": epochs, "params": params,
		})
		require.NoError(t, err)
		_, err = c.Resolve()
		return err
	}
	proposed, refused := regexp.MustCompile(`--param warmup=(\d+)$`), 0
	for _, dataSet := range []string{"voc", "nus", "cub"} {
		for epochs := 1; epochs <= 6; epochs++ {
			for _, params := range []map[string]any{nil, {"warmup": 30}} {
				err := resolve(dataSet, epochs, params)
				if err == nil {
					continue
				}
				refused++
				m := proposed.FindStringSubmatch(err.Error())
				require.NotNil(t, m, err)
				warmup, err := strconv.Atoi(m[1])
				require.NoError(t, err)
				require.NoError(t, resolve(dataSet, max(epochs, 2), map[string]any{"warmup": warmup}), "%s, %d", dataSet, epochs)
			}
		}
	}
	require.Greater(t, refused, 20)
}
