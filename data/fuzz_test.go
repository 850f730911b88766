package data

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// fuzzFormat opens the bytes as a file of a format: an error or a valid set, nothing else.
func fuzzFormat(f *testing.F, format, file string, seeds ...string) {
	for _, s := range seeds {
		if b, err := os.ReadFile(testroot.Testdata("data", "formats", s)); err == nil && len(b) < 1<<16 {
			f.Add(b)
		} else {
			f.Add([]byte(s))
		}
	}
	dir := f.TempDir()
	require.NoError(f, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755))
	f.Fuzz(func(t *testing.T, b []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), b, 0o644))
		path := dir
		if filepath.Dir(file) == "." {
			path = filepath.Join(dir, file)
		}
		for _, o := range []Options{{Format: format, Missing: MissingKeep}, {Format: format, Missing: MissingKeep, Labels: LabelsObserved, Difficult: DifficultUnknown, Unknown: UnknownIgnore, Classes: []string{"cat", "x"}}} {
			d, err := Open(path, o)
			if err != nil {
				continue
			}
			if d.C() > 0 {
				require.NoError(t, d.Validate())
			}
			require.NoError(t, d.Close())
		}
	})
}

func FuzzOpenTable(f *testing.F) {
	fuzzFormat(f, "csv", "t.csv", "pandas/wide_bom_crlf.csv", "pandas/lists.csv", "pandas/signs.csv", "pandas/blanks.csv", "pandas/semicolons_twice.tsv", "filename,split,full,labels,positive,negative\na,train,1,|x|,|x|,\n")
}

func FuzzOpenVOC(f *testing.F) {
	fuzzFormat(f, "voc", "Annotations/1.xml", "label_studio_voc/Annotations/a1.xml", "<annotation><object><name>x</name><difficult>1</difficult></object></annotation>")
}

func FuzzOpenVOCList(f *testing.F) {
	fuzzFormat(f, "voc", "ImageSets/Main/cat_train.txt", "2008_000001  1\n2008_000002 -1\r\n2008_000003  0\n")
}

func FuzzOpenCOCO(f *testing.F) {
	fuzzFormat(f, "coco", "c.json", "pycocotools/annotations/instances_val2017.json", "label_studio_coco/result.json")
}

func FuzzOpenJSONL(f *testing.F) {
	fuzzFormat(f, "jsonl", "metadata.jsonl", "datasets/metadata.jsonl", "datasets_observed/metadata.jsonl", `{"file_name": "a", "positive": [1], "unknown": []}`)
}

func FuzzOpenLabelStudio(f *testing.F) {
	fuzzFormat(f, "label-studio", "e.json", "label_studio/export.json", "label_studio_json_min/result.json")
}

func FuzzOpenLabelStudioCSV(f *testing.F) {
	fuzzFormat(f, "label-studio", "e.csv", "label_studio_csv/result.csv")
}

func FuzzOpenFiftyOne(f *testing.F) {
	fuzzFormat(f, "fiftyone", "labels.json", "fiftyone_classification/labels.json", "fiftyone_samples/samples.json")
}

func FuzzOpenARFF(f *testing.F) {
	fuzzFormat(f, "arff", "a.arff", "arff/dense.arff", "arff/sparse.arff", "@relation 'x: -C -1'\n@attribute f numeric\n@attribute y {0,1}\n@data\n?,1\n{0 2,1 1}\n")
}

func FuzzMulanLabels(f *testing.F) {
	f.Add([]byte(`<labels xmlns="http://mulan.sourceforge.net/labels"><label name="a"><label name="b"></label></label></labels>`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if names, err := parseMulan(bytes.NewReader(b), "x"); err == nil {
			require.NotEmpty(t, names)
		}
	})
}

func FuzzOpenShard(f *testing.F) {
	fuzzFormat(f, "webdataset", "s.tar", "webdataset/set-000001.tar", "webdataset_cls/numbers.tar")
}

func FuzzTarIndex(f *testing.F) {
	shard, err := os.ReadFile(testroot.Testdata("data", "formats", "webdataset/set-000001.tar"))
	require.NoError(f, err)
	f.Add([]byte("v1.2 1\njpg 512 5 a.jpg json 1536 3 a.json\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := readTarIndex(bytes.NewReader(b), "x.idx", bytes.NewReader(shard), int64(len(shard)))
		if err == nil {
			for _, s := range all {
				for _, m := range s.members {
					require.LessOrEqual(t, m.offset+m.size, int64(len(shard)))
				}
			}
		}
	})
}

func FuzzOpenSPMLList(f *testing.F) {
	fuzzFormat(f, "spml-list", "voc_train.txt", "spml_lists/toy_val.txt", "spml_lists/toy_train_singlelabel.txt")
}

func FuzzOpenBoxList(f *testing.F) {
	fuzzFormat(f, "box-list", "boxes.txt", "000001.jpg 48 240 195 371 11 8 12 352 498 14\n")
}

func FuzzOpenYOLO(f *testing.F) {
	fuzzFormat(f, "yolo", "labels/a.txt", "label_studio_yolo/labels/a1.txt")
}

func FuzzYOLONames(f *testing.F) {
	f.Add([]byte("names: [a, b]\n"))
	f.Add([]byte("names:\n  0: a\n  1: b\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if names, err := parseYOLONames(bytes.NewReader(b), "x"); err == nil {
			require.NotEmpty(t, names)
		}
	})
}

func FuzzOpenTSV(f *testing.F) {
	fuzzFormat(f, "tsv", "train.tsv", "file\tofficial_name\tpositive_attributes\na.jpg\tb\t3 4\n")
}

func FuzzOpenCUB(f *testing.F) {
	fuzzFormat(f, "cub", "CUB_200_2011/images.txt", "cub_official/CUB_200_2011/images.txt")
}

func FuzzOpenNUS(f *testing.F) {
	fuzzFormat(f, "nus-wide", "ImageList/Imagelist.txt", "nus_wide/ImageList/TrainImagelist.txt")
}

func FuzzOpenFeatures(f *testing.F) {
	fuzzFormat(f, "features", "f.safetensors", "safetensors/features.safetensors")
}

func FuzzOpenCole(f *testing.F) {
	fuzzFormat(f, "cole", "formatted_train_images.npy", "cole/formatted_train_images.npy")
}
