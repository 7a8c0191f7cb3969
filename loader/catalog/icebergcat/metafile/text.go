package metafile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// compression is how a metadata.json file is packed.
type compression int

const (
	uncompressed compression = iota
	gzipped
	zstandard
)

// compressionOf returns how a metadata file is packed, from its name in either of the
// forms that writers use.
func compressionOf(location string) compression {
	for of, name := range map[compression]string{uncompressed: "", gzipped: "gz", zstandard: "zstd"} {
		if name != "" && (strings.HasSuffix(location, "."+name+".metadata.json") || strings.HasSuffix(location, "metadata.json."+name)) {
			return of
		}
	}
	return uncompressed
}

// Suffix returns the end of a metadata file's name, for one that is packed as another is.
func Suffix(location string) string {
	return map[compression]string{uncompressed: "", gzipped: ".gz", zstandard: ".zstd"}[compressionOf(location)] + ".metadata.json"
}

// Text unpacks the content of a metadata.json file.
func (a Allowance) Text(content []byte) ([]byte, error) {
	u := unpacked{Allowance: a}
	switch compressionOf(a.Location) {
	case gzipped:
		reader, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			return nil, err
		}
		err = u.fill(reader)
		return u.bytes, err
	case zstandard:
		z, err := newZstd()
		if err != nil {
			return nil, err
		}
		defer z.close()
		err = z.unpack(&u, content)
		return u.bytes, err
	case uncompressed:
	}
	return content, nil
}

// Pack packs metadata.json for a file of a name.
func Pack(location string, text []byte) ([]byte, error) {
	var out bytes.Buffer
	switch compressionOf(location) {
	case gzipped:
		w := gzip.NewWriter(&out)
		_, err := w.Write(text)
		err = errors.Join(err, w.Close())
		return out.Bytes(), err
	case zstandard:
		w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		_, err = w.Write(text)
		err = errors.Join(err, w.Close())
		return out.Bytes(), err
	case uncompressed:
	}
	return text, nil
}
