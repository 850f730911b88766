// Package config holds the settings of a run: typed structs by what they are about, their defaults, the checks, and the
// text forms that flags, the environment and YAML files use.
//
//	c := config.Config{
//		Data:   config.Data{Path: "photos"},
//		Method: config.Method{ID: "em"},
//		Run:    config.Run{Dir: "runs/em", Seed: 1200},
//	}
//	c, err := c.Resolve()
//
// Each setting is one field. Its tags are the key (yaml) and the bounds of a number (range), docs.go has a line for
// people; help, reference and files come from them ([Settings]). Files are flat: keys do not know the structs.
//
// Two words that are easily mixed: the data set (voc, coco, nus, cub) is whose published parameters a loss takes,
// [Method].DataSet; the form (paper, code) is whose wording of the loss is followed, [Method].Form.
package config
