package metafile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// compression is the compression of a metadata.json file.
type compression int

const (
	uncompressed compression = iota
	gzipped
	zstandard
)

// compressionOf returns the compression of a metadata file, from its name. Some writers put .gz or
// .zstd before .metadata.json, others after it.
func compressionOf(location string) compression {
	for of, name := range map[compression]string{uncompressed: "", gzipped: "gz", zstandard: "zstd"} {
		if name != "" && (strings.HasSuffix(location, "."+name+".metadata.json") || strings.HasSuffix(location, "metadata.json."+name)) {
			return of
		}
	}
	return uncompressed
}

// Suffix returns the end of the name for a metadata file that has the same compression as the file
// at location.
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

// Pack compresses metadata.json in the way that the name in location says.
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
