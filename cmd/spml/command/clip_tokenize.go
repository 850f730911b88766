package command

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/clip/tokenizer"
)

func newClipTokenize() *cobra.Command {
	var (
		context         int
		pad, asJSON, oc bool
		vocabulary      string
	)
	cmd := &cobra.Command{
		Use:   "tokenize",
		Short: "Token ids of lines from standard input, a JSON list a line",
		Long: `Reads texts from standard input, one a line, and writes the token ids of each, start and end included, as a JSON list. A
text that is longer than the context keeps its beginning and the end token.

  echo "a photo of a dog." | spml clip tokenize
  [49406,320,1125,539,320,1929,269,49407]`,
		Args: exactly(0, "only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if context < 0 || context == 1 || pad && context == 0 {
				return usageError{fmt.Errorf("--context %d: want 2 or more, or 0 for no limit (without --pad)", context)}
			}
			var opts []tokenizer.Option
			if oc {
				opts = append(opts, tokenizer.OpenCLIP)
			}
			t := tokenizer.New(opts...)
			if vocabulary != "" {
				var err error
				if t, err = tokenizer.OpenFolder(vocabulary, opts...); err != nil {
					return err
				}
			}
			in := bufio.NewReader(cmd.InOrStdin())
			out := bufio.NewWriter(cmd.OutOrStdout())
			defer out.Flush()
			for n := 1; ; n++ {
				line, err := in.ReadString('\n')
				if err != nil && !errors.Is(err, io.EOF) {
					return err
				}
				end := err != nil
				if end && line == "" {
					return out.Flush()
				}
				text := strings.TrimSuffix(line, "\n")
				if asJSON {
					if err := json.Unmarshal([]byte(text), &text); err != nil {
						return usageError{fmt.Errorf("line %d is no JSON string: %w", n, err)}
					}
				}
				ids := t.Encode(text)
				if context > 0 {
					b := t.Batch([]string{text}, context)
					if ids = b.Row(0); !pad {
						ids = ids[:b.Longest]
					}
				}
				b, err := json.Marshal(ids)
				if err != nil {
					return err
				}
				if _, err := out.Write(append(b, '\n')); err != nil {
					return err
				}
				if end {
					return out.Flush()
				}
			}
		},
	}
	f := cmd.Flags()
	f.IntVar(&context, "context", 77, "most ids of a text; 0: no limit")
	f.BoolVar(&pad, "pad", false, "fill each list with zeros up to --context")
	f.BoolVar(&asJSON, "json", false, "each line is a JSON string, so that texts may hold line ends")
	f.BoolVar(&oc, "open-clip", false, "take <start_of_text> and <end_of_text> as special tokens, as open_clip does, not OpenAI's literals")
	f.StringVar(&vocabulary, "vocabulary", "", "folder with vocab.json and merges.txt, or tokenizer.json, instead of OpenAI's")
	return cmd
}
