package tokenizer

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/gospml/gospml/internal/atomicfile"
)

// WriteFolder writes vocab.json, merges.txt and tokenizer_config.json, from which Hugging Face makes its CLIPTokenizer.
func (t *Tokenizer) WriteFolder(dir string, contextLength int) error {
	ids := make(map[string]int32, len(t.v.text))
	for i, s := range t.v.text {
		ids[s] = t.v.id(int32(i))
	}
	config := map[string]any{"tokenizer_class": "CLIPTokenizer", "bos_token": openAISOT, "eos_token": openAIEOT, "unk_token": openAIEOT, "pad_token": openAIEOT,
		"model_max_length": contextLength, "do_lower_case": true, "errors": "replace", "add_prefix_space": false}
	for name, v := range map[string]any{"vocab.json": ids, "tokenizer_config.json": config} {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(filepath.Join(dir, name), 0o664, b); err != nil {
			return err
		}
	}
	pairs := make([][2]string, len(t.v.ranks))
	for p, rank := range t.v.ranks {
		pairs[rank] = [2]string{t.v.text[p>>32], t.v.text[uint32(p)]}
	}
	return atomicfile.WriteFile(filepath.Join(dir, "merges.txt"), 0o664, func(w io.Writer) error {
		fmt.Fprintln(w, "#version: 0.2")
		for _, p := range pairs {
			if _, err := fmt.Fprintf(w, "%s %s\n", p[0], p[1]); err != nil {
				return err
			}
		}
		return nil
	})
}
