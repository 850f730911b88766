package native

import (
	"crypto/sha1"
	"crypto/sha256"
	"debug/buildinfo"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gospml/gospml"
)

// licenceTexts are the licences of what a bundle holds beside gospml itself and libtorch, whose wheels bring theirs.
// modules/ has one file for each Go module that cmd/spml links; a test compares it with the module cache and writes it
// (LICENCES_UPDATE=1).
//
//go:embed licences
var licenceTexts embed.FS

// The folder of licences and the list in a bundle.
const (
	licenceFolder = "licences"
	spdxFile      = "spdx.json"
)

// component is what a file of a bundle is made of.
type component struct {
	name, version string
	spdx          string   // an expression of SPDX
	texts         []string // in the bundle
}

var (
	gospmlPart = component{"gospml", "", "Apache-2.0", []string{"licences/gospml.txt"}}
	goPart     = component{"go", "", "BSD-3-Clause", []string{"licences/go.txt"}}
	clipPart   = component{"clip-vocabulary", "", "MIT", []string{"licences/clip-vocabulary.txt"}}
	gccPart    = component{"gcc-runtime", "", "GPL-3.0-or-later WITH GCC-exception-3.1", []string{"licences/gcc-runtime.txt"}}
	jpegPart   = component{"libjpeg-turbo", "", "IJG AND BSD-3-Clause AND Zlib", []string{"licences/libjpeg-turbo.txt"}}
	torchPart  = component{"libtorch", TorchVersion, "LicenseRef-libtorch", []string{"licences/libtorch.txt"}}
	modelPart  = component{"model", "", "LicenseRef-model", []string{"licences/model.txt"}}
	listPart   = component{"licences", "", "CC0-1.0", nil} // texts and the list themselves
)

const modelText = `The weights, labels and settings in model/ are the work of whoever trained them. Weights that training began with have terms of their own, which
hold on: model/ names them where it has a README.md.
`

// moduleFile is the name of a Go module's licence among the texts.
func moduleFile(module string) string {
	return "modules/" + strings.ReplaceAll(module, "/", "_") + ".txt"
}

// FinishBundle adds to a bundle, when everything else is in it, the licence of every file, and spdx.json (SPDX 2.3),
// which says for each file its hashes and what it is made of. Modules of a program that is not spml may have no text
// here: it returns their names, and the list marks them.
func FinishBundle(dir, program string) (unknown []string, err error) {
	texts := map[string][]byte{}
	own, err := fs.ReadFile(gospml.Licences, "LICENSE")
	if err != nil {
		return nil, err
	}
	texts["gospml.txt"] = own
	vocabulary, err := fs.ReadFile(gospml.Licences, "clip/tokenizer/LICENSE.openai")
	if err != nil {
		return nil, err
	}
	parts, err := fs.ReadFile(gospml.Licences, "clip/tokenizer/LICENSE.third-party.md")
	if err != nil {
		return nil, err
	}
	texts["clip-vocabulary.txt"] = slices.Concat(parts, []byte("\n"), vocabulary)
	texts["model.txt"] = []byte(modelText)
	for _, name := range []string{"go.txt", "gcc-runtime.txt", "libjpeg-turbo.txt", "libtorch.txt"} {
		b, err := licenceTexts.ReadFile("licences/" + name)
		if err != nil {
			return nil, err
		}
		texts[name] = b
	}
	programParts := []component{gospmlPart, goPart, clipPart}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("%s does not say what it is made of, so its licences are not known (a Go program built with modules does): %w", program, err)
	}
	for _, m := range info.Deps {
		if m.Path == modulePath {
			continue
		}
		b, err := licenceTexts.ReadFile("licences/" + moduleFile(m.Path))
		if err != nil || m.Replace != nil {
			unknown = append(unknown, m.Path)
			programParts = append(programParts, component{m.Path, m.Version, "NOASSERTION", nil})
			continue
		}
		texts[moduleFile(m.Path)] = b
		programParts = append(programParts, component{m.Path, m.Version, "LicenseRef-" + strings.NewReplacer("/", "-", "_", "-").Replace(m.Path),
			[]string{path.Join(licenceFolder, moduleFile(m.Path))}})
	}
	for name, b := range texts {
		to := filepath.Join(dir, licenceFolder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(to, b, 0o644); err != nil {
			return nil, err
		}
	}
	return unknown, writeSPDX(dir, filepath.Base(program), programParts)
}

// partsOf says what a file of a bundle is made of.
func partsOf(dir, name, program string, programParts []component) ([]component, error) {
	base := path.Base(name)
	switch top, _, _ := strings.Cut(name, "/"); {
	case name == program:
		return programParts, nil
	case top == licenceFolder, name == spdxFile, strings.Contains(name, ".dist-info/"):
		return []component{listPart}, nil
	case top == "model":
		return []component{modelPart}, nil
	case name == "Dockerfile", strings.HasPrefix(base, "libgospml-"):
		return []component{gospmlPart}, nil
	case strings.HasPrefix(base, "libstdc++"), strings.HasPrefix(base, "libgcc_s"), strings.HasPrefix(base, "libgomp"):
		return []component{gccPart}, nil
	case strings.HasPrefix(base, "libturbojpeg"):
		return []component{jpegPart}, nil
	case strings.HasPrefix(name, "libtorch/nvidia/"):
		what := map[bool]string{true: "cuda_runtime", false: "cuda_cupti"}[strings.HasPrefix(base, "libcudart")]
		found, _ := filepath.Glob(filepath.Join(dir, "libtorch", "nvidia_"+what+"-*.dist-info", "licenses", "*"))
		if len(found) == 0 {
			return nil, fmt.Errorf("no licence of %s beside %s: a bundle holds it with its licence only", base, name)
		}
		part := component{"nvidia-" + strings.ReplaceAll(what, "_", "-"), "", "LicenseRef-nvidia", nil}
		for _, f := range found {
			rel, err := filepath.Rel(dir, f)
			if err != nil {
				return nil, err
			}
			part.texts = append(part.texts, filepath.ToSlash(rel))
		}
		return []component{part}, nil
	case top == "libtorch":
		part := torchPart
		found, _ := filepath.Glob(filepath.Join(dir, "libtorch", "torch-*.dist-info", "licenses", "*"))
		for _, f := range found {
			if rel, err := filepath.Rel(dir, f); err == nil {
				part.texts = append(part.texts[:len(part.texts):len(part.texts)], filepath.ToSlash(rel))
			}
		}
		return []component{part}, nil
	}
	return nil, fmt.Errorf("%s in the bundle has no licence here", name)
}

// The parts of an SPDX 2.3 document that are written.
type (
	spdxDocument struct {
		Version   string         `json:"spdxVersion"`
		Licence   string         `json:"dataLicense"`
		ID        string         `json:"SPDXID"`
		Name      string         `json:"name"`
		Namespace string         `json:"documentNamespace"`
		Creation  spdxCreation   `json:"creationInfo"`
		Packages  []spdxPackage  `json:"packages"`
		Files     []spdxEntry    `json:"files"`
		Texts     []spdxText     `json:"hasExtractedLicensingInfos,omitempty"`
		Relations []spdxRelation `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID        string `json:"SPDXID"`
		Name      string `json:"name"`
		Version   string `json:"versionInfo,omitempty"`
		Location  string `json:"downloadLocation"`
		Analyzed  bool   `json:"filesAnalyzed"`
		Concluded string `json:"licenseConcluded"`
		Declared  string `json:"licenseDeclared"`
		Copyright string `json:"copyrightText"`
		Comment   string `json:"comment,omitempty"`
	}
	spdxEntry struct {
		Name      string         `json:"fileName"`
		ID        string         `json:"SPDXID"`
		Checksums []spdxChecksum `json:"checksums"`
		Concluded string         `json:"licenseConcluded"`
		Copyright string         `json:"copyrightText"`
		Comment   string         `json:"comment,omitempty"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxText struct {
		ID   string `json:"licenseId"`
		Text string `json:"extractedText"`
	}
	spdxRelation struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

func writeSPDX(dir, program string, programParts []component) error {
	d := spdxDocument{
		Version: "SPDX-2.3", Licence: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "gospml bundle",
		Creation: spdxCreation{time.Now().UTC().Format(time.RFC3339), []string{"Tool: spml bundle"}},
	}
	known := map[string]bool{}
	all := sha256.New()
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		parts, err := partsOf(dir, name, program, programParts)
		if err != nil {
			return err
		}
		f := spdxEntry{Name: "./" + name, ID: fmt.Sprintf("SPDXRef-File-%d", len(d.Files)+1), Copyright: "NOASSERTION"}
		var licences, texts []string
		for _, c := range parts {
			licences, texts = append(licences, c.spdx), append(texts, c.texts...)
		}
		f.Concluded = strings.Join(slices.Compact(licences), " AND ")
		if slices.Contains(licences, "NOASSERTION") {
			f.Concluded = "NOASSERTION"
		}
		if len(texts) > 0 {
			f.Comment = "licence texts: " + strings.Join(texts, ", ")
		}
		if f.Checksums, err = checksums(p); err != nil {
			return err
		}
		fmt.Fprintln(all, f.Name, f.Checksums[1].Value)
		d.Files = append(d.Files, f)
		for _, c := range parts {
			id := "SPDXRef-Package-" + strings.NewReplacer("/", "-", "_", "-").Replace(c.name)
			if !known[id] {
				known[id] = true
				d.Packages = append(d.Packages, spdxPackage{ID: id, Name: c.name, Version: c.version, Location: "NOASSERTION", Concluded: c.spdx, Declared: c.spdx, Copyright: "NOASSERTION",
					Comment: strings.Join(c.texts, ", ")})
				d.Relations = append(d.Relations, spdxRelation{d.ID, "DESCRIBES", id})
				if err := d.extract(dir, c); err != nil {
					return err
				}
			}
			d.Relations = append(d.Relations, spdxRelation{id, "CONTAINS", f.ID})
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.Namespace = "https://spdx.org/spdxdocs/gospml-bundle-" + hex.EncodeToString(all.Sum(nil))
	b, err := json.MarshalIndent(&d, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, spdxFile), append(b, '\n'), 0o644)
}

// extract adds the text of a licence that is not on SPDX's list.
func (d *spdxDocument) extract(dir string, c component) error {
	if !strings.HasPrefix(c.spdx, "LicenseRef-") || slices.ContainsFunc(d.Texts, func(t spdxText) bool { return t.ID == c.spdx }) {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(c.texts[0])))
	d.Texts = append(d.Texts, spdxText{c.spdx, string(b)})
	return err
}

func checksums(path string) ([]spdxChecksum, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	h1, h256 := sha1.New(), sha256.New()
	_, err = io.Copy(io.MultiWriter(h1, h256), f)
	return []spdxChecksum{{"SHA1", hex.EncodeToString(h1.Sum(nil))}, {"SHA256", hex.EncodeToString(h256.Sum(nil))}}, errors.Join(err, f.Close())
}
