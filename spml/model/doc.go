// Package model is a trained network and the folder it lies in: config.json (architecture, head, classes, thresholds,
// how photos become its input) and model.safetensors.
//
// OpenTagger gives what a program calls: Tag for a photo, TagBatch for many in one pass, Explain for where the network
// looked. Open gives the network itself, Save writes a folder, Export writes other forms (timm, one safetensors file,
// TorchScript). Nothing here trains, so a program that only tags links no trainer.
//
// Heads over feature maps are registered by name (RegisterHead); what a network can do beside backbone.Model it says by
// optional methods (Splitter, Embedder, Explainer and so on), so that nobody asks for its type.
//
// A Tagger is safe for many goroutines. Functions return errors; a photo that cannot be read is an error of that photo
// alone.
package model
