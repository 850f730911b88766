// Package nn holds neural network layers over package torch: plain structs with PyTorch's names, PyTorch's initial
// values and PyTorch's state-dict keys.
//
// # Layers
//
// A layer is a struct with exported fields and a Forward method; there is no base class and nothing to register.
//
//	l := nn.NewLinear(784, 128)             // Weight [128, 784], Bias [128], drawn as torch.nn.Linear draws them
//	y := l.Forward(x)                       // [B, 784] -> [B, 128]
//	mlp := nn.Sequential{l, nn.ReLU{}, nn.NewLinear(128, 10)}
//
// A model is a struct whose fields are tensors, layers, slices or maps of them; its Forward has the signature that it
// needs. Layer is the interface of those that take and return one tensor. The constructors (New…) take the options that
// their comment names; the default is PyTorch's. Under the same seed (torch.ManualSeed) they draw the same numbers in the same
// order as Python's layers.
//
// # Keys
//
// Walk visits the tensors of a module by reflection. The key of a tensor is the path of field names in snake_case
// (RunningMean is "running_mean", BN1 is "bn1"), of indices and of map keys, joined by dots, as in PyTorch:
// "layer1.0.conv1.weight". A tag overrides it:
//
//	InProjWeight *torch.Tensor                                  // in_proj_weight, a parameter
//	Mask         *torch.Tensor `torch:"attn_mask,buffer"`       // a buffer: saved and moved, never trained
//	Table        *torch.Tensor `torch:",buffer,nonpersistent"`  // moved, not saved
//	Cache        *torch.Tensor `torch:"-"`                      // not seen
//	Layer        Layer         `torch:"."`                      // its keys count as the struct's own
//
// The fields of an embedded struct without a tag count as the outer struct's own. A nil tensor or layer is absent, as with
// Bias(false). Within a struct its own parameters come first, then its buffers, then the layers in it, each in the
// order of the fields: PyTorch's order, when fields stand in the order in which Python registers them. Parameters,
// NamedParameters, NamedBuffers, Modules and StateDict build on the same walk. Reflection is for set-up; Forward uses none.
//
// LoadStateDict copies a state dict into a module and answers with a report of what did not fit; LoadSafetensors and
// SaveSafetensors are its files.
//
// # Training mode
//
// New… makes layers in training mode, as Python does. SetTraining switches Dropout and BatchNorm2d (every struct with an
// exported field Training bool) of a whole model. FreezeBatchNorm keeps the running statistics of batch normalisation fixed
// whatever the mode. RequiresGrad freezes parameters.
//
// # Ownership, threads, errors
//
// A layer made inside torch.Scope loses its parameters when the scope ends: make models outside, or Keep their
// Parameters. Sequential and Through free the results between their layers as soon as the next layer has run; a layer of
// one's own that wants to remember its output stores a Retain of it. Forward in evaluation mode may run on many goroutines at
// once; in training mode batch normalisation writes its statistics and dropout uses the random generator, so one
// goroutine trains. Layers panic with *torch.Error, as all tensor maths does; torch.Try converts. Loading and saving return errors.
package nn
