// Package decoder holds heads that look at a feature map instead of its mean: the label-wise embedding module of LAC and ML-Decoder.
//
//	d, err := decoder.New(decoder.Config{InFeatures: 2048, Classes: 80})
//	out := d.Forward(featureMap, decoder.Want{Embeddings: true})   // [B, 2048, H, W] -> logits [B, 80], z [B, 80, 128]
//
// The state-dict keys are the released model's (LAC: encoder.encoder.layers.0.…, query_embed.weight, fc.W, proj.0.…), so its weights load
// without renaming.
//
// Results belong to the caller's scope. Forward is safe from many goroutines in evaluation mode as long as nobody changes the weights;
// training is for one goroutine at a time. Shapes that do not fit panic with *torch.Error, as tensor maths does; constructors return errors.
package decoder
