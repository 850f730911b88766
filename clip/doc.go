// Package clip is CLIP (Radford et al. 2021, arXiv:2103.00020): image and text towers, weights as
// OpenAI, Hugging Face and open_clip write them, the tokenizer, exact preprocessing, and fast encoding from many
// goroutines.
//
// # Two levels
//
// [CLIP] is the network, a module of package nn with OpenAI's state-dict keys: [ViT] or [ModifiedResNet] for pictures, [TextTower] for texts. It can be trained;
// its methods take and return tensors and panic with *torch.Error as tensor maths does. [Load] makes one of a file or folder and says what it took it
// for, [New] one with fresh values.
//
// [Model] is a CLIP for use: pictures as files or pixels, texts as strings, batches of any length, a cache of class prompts, zero-shot scores. Its methods return errors.
//
//	m, err := clip.Open("ViT-B-16.pt", clip.Options{DType: torch.BFloat16})
//	z, err := m.ZeroShot(ctx, []string{"dog", "cat"}, nil)
//	scores, err := z.Files(ctx, [][]byte{jpeg})
//
// # Forms of weights
//
// The content decides, not the name: OpenAI's TorchScript archives and state dicts, open_clip's safetensors and .bin with a configuration, Hugging Face folders (sharded too),
// this module's own folder, bare safetensors. Names are brought to OpenAI's; [Save] writes the module's own form, [Export] the others'.
//
// # What a configuration holds
//
// Besides shapes three things that change results without any error when they are wrong: the activation ([Act]), the rule of resizing position
// embeddings ([Positions]), and the preprocessing ([Preprocess]).
//
// # Ownership and threads
//
// A CLIP's parameters belong to no scope; make it outside. Forward from many goroutines is safe while nobody writes the parameters. A Model is safe for many goroutines;
// tensors that it returns are the caller's.
//
// # Caveats
//
// Freezing (packed oneDNN weights) needs a CPU. On a card (Options.Device) shapes that come again become CUDA graphs, a bounded number of them; that path has not
// yet run on a GPU (docs/gpu-open.md). CoCa's text tower, the blocks of open_clip with further norms and towers of timm are refused by name.
package clip
