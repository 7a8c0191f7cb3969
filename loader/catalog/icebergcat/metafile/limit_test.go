package metafile_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// limited opens the writer's catalog with limits.
func limited(t *testing.T, w *icebergtest.Writer, most, memory int64) (*icebergcat.Catalog, *budget.Budget, *errstore.Store) {
	t.Helper()
	o := w.Options()
	counted := errstore.New(store.Local{})
	o.MaxMetadata, o.Budget, o.Store = most, budget.New(memory), counted
	c, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	return c, o.Budget, counted
}

// A metadata file that is longer than the limit is refused before any of it is read, with a
// remedy.
func TestSparseMetadata(t *testing.T) {
	const size = 20 << 30
	for _, which := range []string{"metadata", "manifest list", "manifest"} {
		t.Run(which, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			location, manifest := icebergtest.TwoManifests(t, w)
			if which == "metadata" {
				location = w.Load(t, icebergtest.Events).MetadataLocation()
			}
			c, held, read := limited(t, w, 1<<20, 64<<20)
			table, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
			require.NoError(t, err)
			if which == "manifest" {
				location = manifest
			}
			require.NoError(t, os.Truncate(icebergtest.Local(t, location), size))
			_, err = c.Files(t.Context(), table, []int{1}, nil)
			require.Equal(t, fault.Exhausted.String(), fault.KindOf(err).String(), "%v", err)
			require.ErrorContains(t, err, which+" of table ml.events has 21474836480 bytes as stored, more than max_metadata allows, which is 1048576")
			require.Equal(t, location, fault.As(err).File)
			require.Less(t, read.Counts().Bytes, int64(1<<20))
			require.Zero(t, held.Used())
		})
	}
}

// Metadata is charged before it is allocated, and the charge is then released.
func TestMetadataIsCharged(t *testing.T) {
	w := icebergtest.NewWriter(t)
	_, manifest := icebergtest.TwoManifests(t, w)
	c, held, read := limited(t, w, 0, 8<<20)
	table, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	files, err := c.Files(t.Context(), table, []int{1}, nil)
	require.NoError(t, err)
	require.Len(t, files, 2)
	require.Zero(t, held.Used())
	require.Greater(t, held.Peak(), int64(2<<10), "two records, at the least")

	before := read.Counts().Bytes
	require.NoError(t, os.Truncate(icebergtest.Local(t, manifest), 64<<20))
	_, err = c.Files(t.Context(), table, []int{1}, nil)
	e := fault.As(err)
	require.Equal(t, fault.Exhausted.String(), e.Kind.String(), "%v", err)
	require.ErrorContains(t, err, "manifest of table ml.events needs 67108864 bytes of memory while it is read")
	require.NotZero(t, e.RetryAfter)
	require.Equal(t, manifest, e.File)
	require.Less(t, read.Counts().Bytes-before, int64(1<<20))
	require.Zero(t, held.Used())

	// So is what a file becomes, beyond its length.
	require.NoError(t, os.WriteFile(icebergtest.Local(t, w.Load(t, icebergtest.Events).MetadataLocation()), bytes.Repeat([]byte("{"), 100_000), 0o600))
	_, err = c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.Equal(t, fault.Exhausted.String(), fault.KindOf(err).String(), "%v", err)
	require.Zero(t, held.Used())
}

// pack compresses a block as an Avro file of a codec has it.
func pack(t *testing.T, codec string, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	switch codec {
	case "null":
		return plain
	case "snappy":
		return binary.BigEndian.AppendUint32(snappy.Encode(nil, plain), crc32.ChecksumIEEE(plain))
	case "zstandard":
		w, err := zstd.NewWriter(&out)
		require.NoError(t, err)
		_, err = w.Write(plain)
		require.NoError(t, err)
		require.NoError(t, w.Close())
	default:
		w, err := flate.NewWriter(&out, flate.BestSpeed)
		require.NoError(t, err)
		_, err = w.Write(plain)
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
	return out.Bytes()
}

// block is a block of an Avro file.
func block(records int64, packed, mark []byte) []byte {
	out := binary.AppendVarint(binary.AppendVarint(nil, records), int64(len(packed)))
	return append(append(out, packed...), mark...)
}

// repack writes an Avro file of deflated blocks with another codec, and then more
// blocks, each of a number of records.
func repack(t *testing.T, content []byte, codec string, more map[int64][]byte) []byte {
	t.Helper()
	mark := content[len(content)-16:]
	header := bytes.Index(content, mark) + len(mark)
	out := rename(content[:header], codec)
	rest := content[header:]
	for len(rest) > 0 {
		records, n := binary.Varint(rest)
		size, m := binary.Varint(rest[n:])
		packed := rest[n+m : n+m+int(size)]
		rest = rest[n+m+int(size)+len(mark):]
		plain, err := io.ReadAll(flate.NewReader(bytes.NewReader(packed)))
		require.NoError(t, err)
		out = append(out, block(records, pack(t, codec, plain), mark)...)
	}
	for records, plain := range more {
		out = append(out, block(records, pack(t, codec, plain), mark)...)
	}
	return out
}

// rename gives a file of deflated blocks, or its header, the name of another codec.
func rename(content []byte, codec string) []byte {
	name := string(binary.AppendVarint(nil, int64(len(codec)))) + codec
	return bytes.Replace(content, []byte("avro.codec\x0edeflate"), []byte("avro.codec"+name), 1)
}

func codecs() []string { return []string{"deflate", "null", "snappy", "zstandard"} }

// Manifests and manifest lists return the same files with every codec. Avro codecs that this
// version does not support are refused by name.
//
// spec: resolve-85
func TestCodecs(t *testing.T) {
	w := icebergtest.NewWriter(t)
	list, manifest := icebergtest.TwoManifests(t, w)
	opened, held, _ := limited(t, w, 1<<20, 64<<20)
	files := func() []catalog.File {
		table, err := opened.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.NoError(t, err)
		files, err := opened.Files(t.Context(), table, []int{1}, []int{1})
		require.NoError(t, err)
		return files
	}
	want := files()
	require.Len(t, want, 2)
	for _, location := range []string{list, manifest} {
		content, err := os.ReadFile(icebergtest.Local(t, location))
		require.NoError(t, err)
		for _, codec := range codecs() {
			repacked := repack(t, content, codec, map[int64][]byte{0: []byte("skipped")})
			require.NoError(t, os.WriteFile(icebergtest.Local(t, location), repacked, 0o600))
			require.Equal(t, want, files(), codec)
			require.Zero(t, held.Used(), codec)
		}
		for codec, c := range map[string]struct {
			kind fault.Kind
			text string
		}{
			"bzip2": {fault.Invalid, " of table ml.events is packed with codec bzip2, which is not supported by this version; rewrite the table's manifests with one of the codecs null, deflate, snappy and zstandard"},
			"xz":    {fault.Invalid, " of table ml.events is packed with codec xz, which is not supported by this version; rewrite the table's manifests with one of the codecs null, deflate, snappy and zstandard"},
			"lz9":   {fault.Corrupt, `"lz9" is not an Avro codec`},
		} {
			require.NoError(t, os.WriteFile(icebergtest.Local(t, location), rename(content, codec), 0o600))
			_, err = opened.Files(t.Context(), &catalog.Table{Name: icebergtest.Events, Pin: pinned(t, opened)}, []int{1}, nil)
			require.ErrorContains(t, err, c.text)
			require.Equal(t, c.kind.String(), fault.KindOf(err).String())
			require.Equal(t, location, fault.As(err).File)
		}
		require.NoError(t, os.WriteFile(icebergtest.Local(t, location), content, 0o600))
	}
}

func pinned(t *testing.T, c *icebergcat.Catalog) dataset.TablePin {
	t.Helper()
	table, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	return table.Pin
}

// A file that unpacks to more than the limit is refused as soon as that is detected, and the
// size that a block claims is not trusted.
func TestBombs(t *testing.T) {
	const most = 1 << 20
	w := icebergtest.NewWriter(t)
	list, manifest := icebergtest.TwoManifests(t, w)
	for _, location := range []string{list, manifest} {
		content, err := os.ReadFile(icebergtest.Local(t, location))
		require.NoError(t, err)
		for _, codec := range codecs() {
			for name, c := range map[string]struct {
				more map[int64][]byte
				kind fault.Kind
				text string
			}{
				"large block":     {map[int64][]byte{1: make([]byte, 32<<20)}, fault.Exhausted, "more than max_metadata allows"},
				"several records": {map[int64][]byte{1: make([]byte, most), 2: make([]byte, most)}, fault.Exhausted, "more than max_metadata allows"},
				"many records":    {map[int64][]byte{1 << 60: make([]byte, 16)}, fault.Corrupt, "claims 1152921504606846976 records"},
				"fewer than none": {map[int64][]byte{-1: make([]byte, 16)}, fault.Corrupt, "claims -1 records"},
				"costly records":  {map[int64][]byte{50_000: make([]byte, 50_000)}, fault.Exhausted, "of memory while it is read"},
			} {
				require.NoError(t, os.WriteFile(icebergtest.Local(t, location), repack(t, content, codec, c.more), 0o600))
				opened, held, _ := limited(t, w, most, 16<<20)
				_, err := opened.Files(t.Context(), &catalog.Table{Name: icebergtest.Events, Pin: pinned(t, opened)}, []int{1}, nil)
				require.ErrorContains(t, err, c.text, "%s %s", codec, name)
				require.Equal(t, c.kind.String(), fault.KindOf(err).String(), "%s %s: %v", codec, name, err)
				require.Equal(t, location, fault.As(err).File)
				require.Zero(t, held.Used())
				require.LessOrEqual(t, held.Peak(), int64(16<<20))
			}
		}
		require.NoError(t, os.WriteFile(icebergtest.Local(t, location), content, 0o600))
	}
}

// Compressed metadata is read up to the limit for unpacked metadata.
func TestPackedMetadata(t *testing.T) {
	w := icebergtest.NewWriter(t)
	w.Create(t, icebergtest.Events, icebergtest.IDSchema())
	content, err := os.ReadFile(icebergtest.Local(t, w.Load(t, icebergtest.Events).MetadataLocation()))
	require.NoError(t, err)
	gzipped := func(plain []byte) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, err := z.Write(plain)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		return out.Bytes()
	}
	c, held, _ := limited(t, w, 1<<20, 64<<20)
	want := pinned(t, c)
	for name, pack := range map[string]func([]byte) []byte{
		"00001-a.gz.metadata.json":   gzipped,
		"00001-a.metadata.json.gz":   gzipped,
		"00001-a.zstd.metadata.json": func(plain []byte) []byte { return pack(t, "zstandard", plain) },
	} {
		path := filepath.Join(w.Dir, name)
		icebergtest.Execute(t, w.Dir+"/catalog.db", `UPDATE iceberg_tables SET metadata_location = '`+path+`'`)
		require.NoError(t, os.WriteFile(path, pack(content), 0o600))
		require.Equal(t, want, pinned(t, c), name)

		require.NoError(t, os.WriteFile(path, pack([]byte(strings.Repeat(" ", 8<<20))), 0o600))
		_, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.ErrorContains(t, err, "metadata of table ml.events unpacks to more than max_metadata allows, which is 1048576 bytes", name)
		require.Equal(t, fault.Exhausted, fault.KindOf(err), name)

		require.NoError(t, os.WriteFile(path, pack(content)[:40], 0o600))
		_, err = c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.Equal(t, fault.Corrupt, fault.KindOf(err), "%s: %v", name, err)
		require.Zero(t, held.Used(), name)
	}
}

// The window that a Zstandard frame asks for is charged before the frame is unpacked, also if it is not the first frame.
//
// spec: resolve-85
func TestZstandardWindowsAreCharged(t *testing.T) {
	const window = 64 << 20
	wide := func(plain []byte) []byte {
		var out bytes.Buffer
		z, err := zstd.NewWriter(&out, zstd.WithWindowSize(window))
		require.NoError(t, err)
		_, err = z.Write(plain)
		require.NoError(t, err)
		require.NoError(t, z.Flush())
		require.NoError(t, z.Close())
		var h zstd.Header
		require.NoError(t, h.Decode(out.Bytes()))
		require.EqualValues(t, window, h.WindowSize)
		return out.Bytes()
	}
	skipped := binary.LittleEndian.AppendUint32([]byte{0x50, 0x2a, 0x4d, 0x18}, 3)
	skipped = append(skipped, "xyz"...)
	w := icebergtest.NewWriter(t)
	_, manifest := icebergtest.TwoManifests(t, w)
	content, err := os.ReadFile(icebergtest.Local(t, manifest))
	require.NoError(t, err)
	mark := content[len(content)-16:]
	whole := repack(t, content, "zstandard", nil)
	for name, packed := range map[string][]byte{
		"the first frame": wide([]byte("skipped")),
		"a later frame":   slices.Concat(pack(t, "zstandard", []byte("a")), skipped, wide([]byte("b"))),
	} {

		require.NoError(t, os.WriteFile(icebergtest.Local(t, manifest), slices.Concat(whole, block(1, packed, mark)), 0o600))
		opened, held, _ := limited(t, w, 1<<20, window/2)
		_, err = opened.Files(t.Context(), &catalog.Table{Name: icebergtest.Events, Pin: pinned(t, opened)}, []int{1}, nil)
		require.ErrorContains(t, err, "of memory while it is read", name)
		require.Equal(t, fault.Exhausted.String(), fault.KindOf(err).String(), name)
		require.Zero(t, held.Used())
	}
	text, err := os.ReadFile(icebergtest.Local(t, w.Load(t, icebergtest.Events).MetadataLocation()))
	require.NoError(t, err)
	path := filepath.Join(w.Dir, "00001-a.zstd.metadata.json")
	require.NoError(t, os.WriteFile(path, wide(text), 0o600))
	icebergtest.Execute(t, w.Dir+"/catalog.db", `UPDATE iceberg_tables SET metadata_location = '`+path+`'`)
	opened, held, _ := limited(t, w, 1<<20, window/2)
	_, err = opened.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.ErrorContains(t, err, "of memory while it is read")
	require.Zero(t, held.Used())
	opened, held, _ = limited(t, w, 1<<20, 2*window)
	_, err = opened.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	require.Greater(t, held.Peak(), int64(window))
}
