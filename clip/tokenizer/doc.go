// Package tokenizer turns text into CLIP's token ids: the byte-pair encoding of OpenAI's release (Radford et al. 2021,
// arXiv:2103.00020) with its clean-up, equal id for id.
//
//	t := tokenizer.Default()
//	ids := t.Encode("a photo of a dog.")           // 49406 320 1125 539 320 1929 269 49407
//	b := t.Batch(captions, 77)                     // [len(captions), 77], padded with 0, cut with the end token kept
//
// # What is done to a text
//
// [Clean] does what the original does before it looks at the vocabulary: ftfy's repairs, HTML entities unescaped twice, white space
// collapsed, lower case with Unicode's full rules. The text is then cut into contractions, words, single digits and runs of other
// characters, and each piece is merged by rank. The literals <|startoftext|> and <|endoftext|> in a text become the special
// ids, as in the original: a user's text can inject them. [OpenCLIP] chooses open_clip's literals instead.
//
// # The vocabulary
//
// merges.txt.gz holds the header and the first 48,894 merges of OpenAI's bpe_simple_vocab_16e6.txt.gz (MIT, LICENSE.openai), which is all that is used of it.
// [FromMerges] reads another list, [OpenFolder] the files of a Hugging Face folder.
//
// # Threads
//
// A Tokenizer is safe for many goroutines; it keeps the ids of the pieces it has seen, up to a fixed number. Nothing here needs libtorch.
package tokenizer
