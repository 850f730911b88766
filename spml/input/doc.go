// Package input turns pictures of bytes into what a network reads.
//
// [Normalize] mirrors, normalises, changes type and layout in one pass (operator spml::normalize_images; CPU and CUDA). The float32 bits are those of torchvision's ToTensor and
// Normalize. [Resize] is Pillow's resampling as an operator (spml::resample; CPU and CUDA, equal to [pixel.Resize] in every byte).
//
// [Input] feeds a training loop from a [data.Loader]: bytes cross to the device, a quarter of what float32 would be, pictures stay there up to a byte budget, so that later
// epochs upload nothing, and become numbers there.
//
// An Input belongs to one goroutine at a time; the functions are safe for many.
package input
