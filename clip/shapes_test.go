package clip

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShapes(t *testing.T) {
	c, err := Named("ViT-L/14@336px")
	require.NoError(t, err)
	own, err := Shapes(c, OpenCLIP)
	require.NoError(t, err)
	require.Equal(t, []int{577, 1024}, own["visual.positional_embedding"])
	hf, err := Shapes(c, HuggingFace)
	require.NoError(t, err)
	require.Equal(t, []int{768, 1024}, hf["visual_projection.weight"])
	require.Equal(t, []int{1024, 1024}, hf["vision_model.encoder.layers.23.self_attn.k_proj.weight"])
	c, err = Named("RN50")
	require.NoError(t, err)
	_, err = Shapes(c, HuggingFace)
	require.ErrorContains(t, err, "ModifiedResNet")
	_, err = Shapes(c, "another")
	require.ErrorContains(t, err, "none of own")
}
