// Package pth reads and writes PyTorch's .pth, .pt and .bin files without running the code that such files may carry.
// It deals in dtype names, shapes and bytes and knows no tensor library; nn.LoadPTH makes tensors of a file.
//
// Reading: Open (or Parse for any io.ReaderAt) reads the pickled structure and checks that every tensor lies within the
// file; no tensor data is read. Three containers are read: the zip archive of torch.save since 1.6, the stream of
// pickles before it, and TorchScript archives (torch.jit.save, OpenAI's CLIP), of which only tensors and attributes are
// seen; their code runs in package jit. File.StateDict finds the state dict, also inside a checkpoint with an epoch and
// an optimizer; File.Root is the whole structure. File.ReadInto and File.Bytes give a tensor's elements, little-endian
// and row-major whatever its strides. A File is safe for use by many goroutines until Close.
//
// A pickle is a program. The one that reads here has no instruction that runs anything: a fixed list of globals stands
// for tensors, parameters, storages, dtypes, containers (OrderedDict, Counter, set, argparse.Namespace), numbers,
// torch.Size, torch.device, numpy scalars and arrays, as torch.load(weights_only=True) has it, and every other global
// refuses the file by its name. So does what is inconsistent: a storage that is not in the file or has another size, a
// tensor that reaches beyond its storage, archive entries that overlap, occur twice or are compressed (torch.save
// compresses nothing that is read here), a pickle that ends early or reads an unset memo. Sparse, quantized and nested
// tensors, and the tar files of PyTorch 0.1, are refused too.
//
// Opening allocates no more than the file's size, 1 MB and up to 3 KB for each tensor (256 MB for all), whatever the
// file says: every object that the pickle makes is charged to that account. A file with very many other Python objects,
// such as a vocabulary, may need more: OpenLimit, SetLimit. Tensors may share storage, so reading all of them one by
// one can take more than the file: File.Storages and Tensor.Storage say what is shared.
//
// Writing: Write and Encode make a zip archive with a state dict that torch.load(weights_only=True) reads.
//
// Errors: a file that breaks the rules gives a *FormatError, which names it; everything else is the system's error,
// wrapped with the path.
package pth
