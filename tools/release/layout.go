package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// layout is an OCI image layout: a folder of blobs that are named by their digests.
type layout struct{ folder string }

// newLayout makes an empty layout, in place of an older one.
func newLayout(folder string) (*layout, error) {
	if err := os.RemoveAll(folder); err != nil {
		return nil, err
	}
	l := &layout{folder}
	if err := os.MkdirAll(filepath.Join(folder, "blobs", "sha256"), 0o755); err != nil {
		return nil, err
	}
	return l, l.write("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
}

func (l *layout) write(name string, text []byte) error {
	return os.WriteFile(filepath.Join(l.folder, name), text, 0o644) //nolint:gosec // all may read it
}

// add adds a blob.
func (l *layout) add(mediaType string, blob []byte) (descriptor, error) {
	sum := digest(blob)
	name := filepath.Join("blobs", "sha256", strings.TrimPrefix(sum, "sha256:"))
	return descriptor{MediaType: mediaType, Digest: sum, Size: int64(len(blob))}, l.write(name, blob)
}

// addJSON adds a value as a blob.
func (l *layout) addJSON(mediaType string, v any) (descriptor, error) {
	text, err := jsonText(v)
	if err != nil {
		return descriptor{}, err
	}
	return l.add(mediaType, text)
}

// finish writes the index, which makes the layout complete.
func (l *layout) finish(index manifest) error {
	text, err := jsonText(index)
	if err != nil {
		return err
	}
	return l.write("index.json", text)
}

// layerFile is a file of a layer, or a folder if its path ends with a slash.
type layerFile struct {
	path  string
	text  []byte
	mode  int64 // 0: 0644, of a folder 0755
	owner int   // user and group
}

// layer returns a layer, and the digest of what it unpacks to.
func layer(files []layerFile, at time.Time) (blob []byte, unpacked string, err error) {
	var packed, plain bytes.Buffer
	out := tar.NewWriter(&plain)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Size: int64(len(f.text)), Mode: f.mode, Uid: f.owner, Gid: f.owner, ModTime: at, Format: tar.FormatPAX}
		if strings.HasSuffix(f.path, "/") {
			h.Typeflag = tar.TypeDir
		}
		if h.Mode == 0 {
			h.Mode = map[byte]int64{tar.TypeReg: 0o644, tar.TypeDir: 0o755}[h.Typeflag]
		}
		if err := out.WriteHeader(h); err != nil {
			return nil, "", err
		}
		if _, err := out.Write(f.text); err != nil {
			return nil, "", err
		}
	}
	if err := out.Close(); err != nil {
		return nil, "", err
	}
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, "", err
	}
	if _, err := zip.Write(plain.Bytes()); err != nil {
		return nil, "", err
	}
	if err := zip.Close(); err != nil {
		return nil, "", err
	}
	return packed.Bytes(), digest(plain.Bytes()), nil
}

// digest returns the digest of a blob, as layouts name it.
func digest(blob []byte) string {
	sum := sha256.Sum256(blob)
	return "sha256:" + hex.EncodeToString(sum[:])
}
