package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layerFile is a file of a layer, or a folder if its path ends with a slash.
type layerFile struct {
	path  string
	text  []byte
	mode  int64 // 0: 0644, of a folder 0755
	owner int   // user and group
}

// layer returns a layer of these files.
func layer(files []layerFile, at time.Time) (v1.Layer, error) {
	var plain bytes.Buffer
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
			return nil, err
		}
		if _, err := out.Write(f.text); err != nil {
			return nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(plain.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
}
