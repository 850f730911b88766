package data

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/atomicfile"
)

func webDatasetFormat() Format {
	return Format{
		Name: "webdataset", Title: "webdataset shards", Holds: "<set>-000000.tar … with <key>.jpg and <key>.json, .cls or .txt; <set>-000000.idx if wanted (`spml data index`)",
		sniff: func(t *tree) int {
			if t.file != "" {
				if extension(t.file) == "tar" {
					return 80
				}
				return 0
			}
			if len(t.files(".", "*.tar")) > 0 {
				return 65
			}
			return 0
		},
		open:  openWebDataset,
		write: &writer{write: writeWebDataset, loses: losesNothing, photos: true},
	}
}

// tarMember is a file inside of a shard.
type tarMember struct {
	name   string
	offset int64
	size   int64
}

// tarSample is the members with one key: their names up to the first dot after the last slash.
type tarSample struct {
	key     string
	members map[string]tarMember // by the rest of the name, in lower case
}

// splitTarName cuts a name at the first dot after the last slash.
func splitTarName(name string) (key, ext string) {
	dir, base := path.Split(name)
	k, ext, _ := strings.Cut(base, ".")
	return dir + k, strings.ToLower(ext)
}

const maxTarMembers = 1 << 26

// indexTar walks over the headers of a shard. Files of one key must lie beside each other, as webdataset writes them.
func indexTar(r io.ReadSeeker, shard string) ([]tarSample, error) {
	tr := tar.NewReader(r)
	var out []tarSample
	seen := map[string]bool{}
	for n := 0; ; n++ {
		h, err := tr.Next()
		if err == io.EOF {
			return out, nil
		}
		at, _ := r.Seek(0, io.SeekCurrent)
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			last := ""
			if len(out) > 0 {
				last = ", after " + out[len(out)-1].key
			}
			return nil, formatError(shard, 0, "damaged near byte %d%s: %v", at, last, err)
		}
		if n == maxTarMembers {
			return nil, formatError(shard, 0, "there are more than %d files", maxTarMembers)
		}
		if h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		name, err := cleanName(h.Name)
		if err != nil {
			return nil, formatError(shard, 0, "at byte %d: %v", at, err)
		}
		if h.Typeflag != tar.TypeReg || h.PAXRecords["GNU.sparse.major"] != "" || h.PAXRecords["GNU.sparse.map"] != "" {
			return nil, formatError(shard, 0, "%s at byte %d is no plain file: links and sparse files are refused", name, at)
		}
		key, ext := splitTarName(name)
		if path.Base(key) == "" || strings.HasSuffix(key, "/") {
			continue // hidden files
		}
		if len(out) == 0 || out[len(out)-1].key != key {
			if seen[key] {
				return nil, formatError(shard, 0, "the key %q at byte %d is there twice, with others between", key, at)
			}
			seen[key] = true
			out = append(out, tarSample{key, map[string]tarMember{}})
		}
		m := out[len(out)-1].members
		if _, twice := m[ext]; twice {
			return nil, formatError(shard, 0, "%s at byte %d is there twice", name, at)
		}
		m[ext] = tarMember{name, at, h.Size}
	}
}

const indexVersion = "v1.2"

// readTarIndex reads an index as `spml data index` and DALI's wds2idx write it: a line for each sample with extension, offset, size and name of its files.
func readTarIndex(r io.Reader, file string, shard io.ReaderAt, size int64) ([]tarSample, error) {
	var out []tarSample
	want, seen := 0, map[string]bool{}
	err := eachLine(r, file, func(line int, text string) error {
		f := strings.Fields(text)
		if line == 1 {
			n, err := strconv.Atoi(f[len(f)-1])
			if len(f) != 2 || f[0] != indexVersion || err != nil || n < 0 {
				return formatError(file, line, "the first line must be `%s <samples>`", indexVersion)
			}
			want = n
			return nil
		}
		if len(f)%4 != 0 {
			return formatError(file, line, "each file of a sample needs extension, offset, size and name")
		}
		s := tarSample{members: map[string]tarMember{}}
		for ; len(f) > 0; f = f[4:] {
			at, err1 := strconv.ParseInt(f[1], 10, 64)
			n, err2 := strconv.ParseInt(f[2], 10, 64)
			if err1 != nil || err2 != nil || at < 512 || n < 0 || at > size || n > size-at {
				return formatError(file, line, "%s lies outside of the shard", f[3])
			}
			name, err := cleanName(f[3])
			if err != nil {
				return formatError(file, line, "%v", err)
			}
			key, ext := splitTarName(name)
			if s.key != "" && s.key != key {
				return formatError(file, line, "%q and %q are in one sample", s.key, key)
			}
			var head [512]byte
			if _, err := shard.ReadAt(head[:], at-512); err != nil || string(head[257:262]) != "ustar" || tarSize(head[124:136]) != n {
				return formatError(file, line, "there is no %s at byte %d of the shard: the index is of another file, make it anew with `spml data index`", name, at)
			}
			s.key, s.members[ext] = key, tarMember{name, at, n}
		}
		if seen[s.key] {
			return formatError(file, line, "the key %q is there twice", s.key)
		}
		seen[s.key] = true
		out = append(out, s)
		return nil
	})
	if err == nil && len(out) != want {
		err = formatError(file, 0, "the first line promises %d samples, there are %d", want, len(out))
	}
	return out, err
}

// tarSize reads the size field of a header, octal or base 256.
func tarSize(b []byte) int64 {
	if b[0]&0x80 != 0 {
		n := int64(b[0] & 0x7f)
		for _, x := range b[1:] {
			if n > 1<<54 {
				return -1
			}
			n = n<<8 | int64(x)
		}
		return n
	}
	n, err := strconv.ParseInt(strings.Trim(string(b), " \x00"), 8, 64)
	if err != nil {
		return -1
	}
	return n
}

// WriteTarIndex writes the index of a shard beside it (x.tar -> x.idx) in the format of DALI's wds2idx, and returns its path and the number of samples. With it
// [Open] does not walk over the shard.
func WriteTarIndex(shard string) (file string, samples int, err error) {
	f, err := os.Open(shard)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	all, err := indexTar(f, filepath.Base(shard))
	if err != nil {
		return "", 0, err
	}
	file = strings.TrimSuffix(shard, ".tar") + ".idx"
	err = atomicfile.WriteFile(file, 0o644, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		fmt.Fprintf(b, "%s %d\n", indexVersion, len(all))
		for _, s := range all {
			var ext []string
			for e := range s.members {
				ext = append(ext, e)
			}
			slices.SortFunc(ext, func(x, y string) int { return int(s.members[x].offset - s.members[y].offset) })
			for i, e := range ext {
				m := s.members[e]
				if strings.ContainsAny(m.name, " \t\n") || e == "" {
					return formatError(filepath.Base(shard), 0, "%q cannot stand in an index: a blank in its name or no extension", m.name)
				}
				if i > 0 {
					b.WriteByte(' ')
				}
				fmt.Fprintf(b, "%s %d %d %s", e, m.offset, m.size, m.name)
			}
			b.WriteByte('\n')
		}
		return b.Flush()
	})
	return file, len(all), err
}

// shards is the [Source] of tar files: random access by offset.
type shards struct {
	names []string
	files []*os.File
	at    []shardPlace
}

type shardPlace struct {
	shard  int
	member tarMember
}

// ReadFile implements [RawSource]. Its errors name shard, key and byte.
func (s *shards) ReadFile(row int, buf []byte) ([]byte, error) {
	p := s.at[row]
	n := p.member.size
	if n > MaxImageBytes {
		return buf[:0], fmt.Errorf("%s in %s at byte %d: %d bytes are more than the %d allowed for an image file", p.member.name, s.names[p.shard], p.member.offset, n, MaxImageBytes)
	}
	if int64(cap(buf)) < n {
		buf = make([]byte, n+n/4)
	}
	buf = buf[:n]
	if _, err := s.files[p.shard].ReadAt(buf, p.member.offset); err != nil {
		return buf[:0], fmt.Errorf("%s in %s at byte %d: %w", p.member.name, s.names[p.shard], p.member.offset, err)
	}
	return buf, nil
}

// NewReader implements [Source].
func (s *shards) NewReader(opt ReadOptions) (Reader, error) {
	d, err := pixel.NewDecoder(opt.Decode)
	if err != nil {
		return nil, err
	}
	return &fileReader{files: s, decoder: d, filter: opt.Filter, where: func(row int) string {
		p := s.at[row]
		return fmt.Sprintf("%s at byte %d", s.names[p.shard], p.member.offset)
	}}, nil
}

// Close implements [Source].
func (s *shards) Close() error {
	var err error
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

const maxTarLabelBytes = 1 << 20

func openWebDataset(t *tree, o Options) (*Dataset, error) {
	files := []string{t.file}
	if t.file == "" {
		files = t.files(".", or(escapePattern(o.Set), "")+"*.tar")
	}
	b := newBuilder(t, o, strings.Join(files[:min(3, len(files))], ", "))
	b.noPhotos = true
	if t.has("classes.txt") || o.Classes != nil {
		if err := b.setNumberedClasses("", "classes.txt"); err != nil {
			return nil, err
		}
	} else if err := b.openClasses(); err != nil {
		return nil, err
	}
	have, part := map[string]bool{}, make([]string, len(files))
	for i, f := range files {
		name, _, _ := strings.Cut(stem(f), "-")
		p, ok := partName(name)
		part[i] = p
		if have[p] = true; !ok {
			have[""] = true
		}
	}
	placed := !have[""]
	to, note := partSplits(have)
	if placed && note != "" && len(have) > 1 {
		b.note("%s", note)
	}
	placed = placed && len(have) > 1
	src := &shards{}
	closeAll := true
	defer func() {
		if closeAll {
			src.Close()
		}
	}()
	j := &jsonlReader{b: b}
	indexed := 0
	for i, name := range files {
		f, size, err := t.open(name, 1<<62)
		if err != nil {
			return nil, err
		}
		src.names, src.files = append(src.names, name), append(src.files, f)
		var samples []tarSample
		if idx := strings.TrimSuffix(name, ".tar") + ".idx"; t.has(idx) {
			in, _, err := t.open(idx, MaxCSVBytes)
			if err != nil {
				return nil, err
			}
			samples, err = readTarIndex(in, idx, f, size)
			in.Close()
			if err != nil {
				return nil, err
			}
			indexed++
		} else if samples, err = indexTar(f, name); err != nil {
			return nil, err
		}
		for _, s := range samples {
			if err := j.sample(src, i, s, placedSplit(to, part[i], placed), placed); err != nil {
				return nil, err
			}
		}
	}
	j.finish()
	if indexed > 0 {
		b.note("%d of %d shards have an index", indexed, len(files))
	}
	b.source = src
	d, err := b.finish()
	closeAll = err != nil
	return d, err
}

// sample appends a row for a sample of a shard.
func (j *jsonlReader) sample(src *shards, shard int, s tarSample, split Split, placed bool) error {
	b, file := j.b, src.names[shard]
	photo, found := tarMember{}, false
	for _, e := range []string{"jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff"} {
		if m, ok := s.members[e]; ok {
			photo, found = m, true
			break
		}
	}
	if !found {
		return formatError(file, 0, "the sample %q has no image", s.key)
	}
	read := func(m tarMember) (string, error) {
		if m.size > maxTarLabelBytes {
			return "", formatError(file, 0, "%s at byte %d: %d bytes are too many for labels", m.name, m.offset, m.size)
		}
		buf := make([]byte, m.size)
		if _, err := src.files[shard].ReadAt(buf, m.offset); err != nil {
			return "", formatError(file, 0, "%s at byte %d: %v", m.name, m.offset, err)
		}
		return strings.TrimSpace(strings.TrimPrefix(string(buf), string(bom))), nil
	}
	r := row{name: photo.name, file: file, split: split, placed: placed, ref: len(src.at)}
	var l jsonRow
	var m tarMember
	var err error
	ok := false
	if m, ok = s.members["json"]; ok {
		var text string
		if text, err = read(m); err != nil {
			return err
		}
		if l, err = parseJSONLabels([]byte(text)); err != nil {
			return formatError(file, 0, "%s at byte %d: %v", m.name, m.offset, err)
		}
	} else if m, ok = s.members["cls"]; ok {
		var text string
		if text, err = read(m); err != nil {
			return err
		}
		l.labels, l.hasLabels = strings.Fields(text), true
		if _, nerr := parseIndex(text); nerr == nil && !b.closed {
			c, err := b.index(text, file, 0)
			if err != nil {
				return err
			}
			b.sortByName = false
			b.classFrom = "the numbers in the files: give the names as classes.txt beside them"
			l.labels = []string{b.classes[c]}
		}
	} else if m, ok = s.members["txt"]; ok {
		var text string
		if text, err = read(m); err != nil {
			return err
		}
		l.labels, l.hasLabels = splitList(strings.ReplaceAll(text, "\n", "|")), true
	} else {
		return formatError(file, 0, "the sample %q has no .json, .cls or .txt with its labels", s.key)
	}
	before := len(b.rows)
	if err := j.addRow(r, l, fmt.Sprintf("%s: %s at byte %d", file, m.name, m.offset), 0); err != nil {
		return err
	}
	if len(b.rows) == before {
		return formatError(file, 0, "the key %q is in two shards", s.key)
	}
	src.at = append(src.at, shardPlace{shard, photo})
	return nil
}
