// Package backbone holds image classifiers: MobileNetV2, ResNet-18, -34, -50 and -101 and SqueezeNet with torchvision's keys,
// ConvNeXt (tiny to xlarge) and vision transformers with timm's, and a small network for 64×64 pictures.
//
//	m, err := backbone.New("resnet50", 20)                        // fresh weights, torchvision's for the same seed
//	m, loaded, err := backbone.NewFromFile("mobilenet_v2", path, 5)  // ImageNet weights, a new head of 5 classes
//	logits := m.Forward(x)                                        // x [B, 3, H, W] float, normalised; logits [B, 5]
//
// # Shape of a model
//
// Every Model maps pictures to a feature map [B, D, h, w] (FeatureMap), takes its mean over positions (Features, [B, D])
// and multiplies with a Linear (Head, [C, D]). For single-positive multi-label learning the logits go through a sigmoid. The map and
// the head's weight give class activation maps; the map is what a decoder head reads.
//
// # Keys and weights
//
// State-dict keys are torchvision's or timm's, num_batches_tracked included, so their files load without renaming; ConvNeXt and ViT also
// load torchvision's files, ConvNeXt those of its original release. Files are safetensors or PyTorch's. A file whose
// classifier has another number of classes loads all but the classifier, and Loaded says so; any other difference is an error with a table.
//
// # Batch normalisation
//
// Models start in training mode (nn.SetTraining switches). nn.FreezeBatchNorm keeps all batch normalisation in
// evaluation mode during training, with gain and bias trained, as runs from weights whose statistics were folded need it.
//
// # Ownership, threads, errors
//
// Make models outside torch.Scope. In evaluation mode one model serves many goroutines. New, NewFromFile and Load
// return errors; Forward, Features and FeatureMap are tensor maths and panic with *torch.Error, which torch.Try converts.
package backbone
