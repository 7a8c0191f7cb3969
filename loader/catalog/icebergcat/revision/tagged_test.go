package revision_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/store/s3/gatewaytest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// rawMembers are the members of an object, as they are written.
func rawMembers(t *testing.T, text []byte) map[string]json.RawMessage {
	t.Helper()
	out := map[string]json.RawMessage{}
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

// described is a table whose metadata file was rewritten by change, in its own catalog, and its
// pin. The name is that of the file.
func described(t *testing.T, name string, change func(text string) string) (*icebergcat.Catalog, *catalog.Table, func() string) {
	t.Helper()
	w := icebergtest.NewWriter(t)
	w.Pinned(t, w.Open(t), 2)
	old := icebergtest.Local(t, w.Load(t, icebergtest.Events).MetadataLocation())
	text, err := os.ReadFile(old)
	require.NoError(t, err)
	location := filepath.Join(filepath.Dir(old), name)
	require.NoError(t, os.WriteFile(location, []byte(change(string(text))), 0o600))
	at := func() string {
		var now string
		db := icebergtest.OpenDB(t, filepath.Join(w.Dir, "catalog.db"))
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT metadata_location FROM iceberg_tables`).Scan(&now))
		return now
	}
	_, err = icebergtest.OpenDB(t, filepath.Join(w.Dir, "catalog.db")).ExecContext(t.Context(), `UPDATE iceberg_tables SET metadata_location = '`+location+`'`)
	require.NoError(t, err)
	c := w.Open(t)
	pinned, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	return c, pinned, at
}

const named = "00007-5a2f1f6c-0c5d-4a57-9d0c-9e4a7f2f3c11.metadata.json"

// A tag changes three members of a table's metadata, and leaves the text of all others.
func TestTagLeavesOtherMetadataUnchanged(t *testing.T) {
	var before string
	const more = `"of-a-later-version" : {"n": 123456789012345678901234567890.50, "html": "<&> \u00fc ü", "list":[ 1, 2 ]}`
	c, pinned, at := described(t, named, func(text string) string {
		before = "{" + more + "," + strings.TrimPrefix(strings.TrimSpace(text), "{")
		return before
	})
	old := at()
	wanted := time.Now().Add(time.Hour)
	_, err := c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
	require.NoError(t, err)
	require.Regexp(t, `/00008-[0-9a-f-]{36}\.metadata\.json$`, at())
	require.Equal(t, filepath.Dir(old), filepath.Dir(at()))
	text, err := os.ReadFile(at())
	require.NoError(t, err)
	was, is := rawMembers(t, []byte(before)), rawMembers(t, text)
	require.Len(t, is, len(was))
	for name, value := range was {
		switch name {
		case "refs", "metadata-log", "last-updated-ms":
		default:
			require.Equal(t, string(value), string(is[name]), name)
		}
	}
	refs := rawMembers(t, is["refs"])
	require.Equal(t, string(rawMembers(t, was["refs"])["main"]), string(refs["main"]))
	require.Len(t, refs, 2)
	var log []struct {
		File string `json:"metadata-file"`
		At   int64  `json:"timestamp-ms"`
	}
	require.NoError(t, json.Unmarshal(is["metadata-log"], &log))
	var logged, kept []json.RawMessage
	require.NoError(t, json.Unmarshal(was["metadata-log"], &logged))
	require.NoError(t, json.Unmarshal(is["metadata-log"], &kept))
	require.NotEmpty(t, logged)
	require.Equal(t, logged, kept[:len(kept)-1], "the earlier log entries stay")
	require.Equal(t, old, log[len(log)-1].File)
	require.Equal(t, string(was["last-updated-ms"]), icebergtest.Itoa(log[len(log)-1].At))
	require.GreaterOrEqual(t, string(is["last-updated-ms"]), string(was["last-updated-ms"]))
}

// Metadata without refs also gets a ref for main: otherwise readers would assume that the
// table has no main.
func TestTagsOfTablesWithoutRefs(t *testing.T) {
	c, pinned, at := described(t, named, func(text string) string {
		object := rawMembers(t, []byte(text))
		delete(object, "refs")
		return string(icebergtest.Must(json.Marshal(object)))
	})
	wanted := time.Now().Add(time.Hour)
	_, err := c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
	require.NoError(t, err)
	text, err := os.ReadFile(at())
	require.NoError(t, err)
	refs := rawMembers(t, rawMembers(t, text)["refs"])
	require.JSONEq(t, `{"snapshot-id": `+icebergtest.Itoa(pinned.Pin.Snapshot)+`, "type": "branch"}`, string(refs["main"]))
	require.Len(t, refs, 2)
	again, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	require.Equal(t, pinned.Pin, again.Pin)
}

// A metadata file has the same compression as the previous one, whatever its name.
func TestNewMetadataKeepsItsCompression(t *testing.T) {
	gz := func(text string) string {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return out.String()
	}
	zst := func(text string) string {
		return string(icebergtest.Must(zstd.NewWriter(nil)).EncodeAll([]byte(text), nil))
	}
	for name, c := range map[string]struct {
		pack func(string) string
		next string
		open func(io.Reader) io.Reader
	}{
		"v3.metadata.json":     {func(s string) string { return s }, `/00004-[0-9a-f-]{36}\.metadata\.json$`, func(r io.Reader) io.Reader { return r }},
		"table.metadata.json":  {func(s string) string { return s }, `/00000-[0-9a-f-]{36}\.metadata\.json$`, func(r io.Reader) io.Reader { return r }},
		"v3.gz.metadata.json":  {gz, `/00004-[0-9a-f-]{36}\.gz\.metadata\.json$`, func(r io.Reader) io.Reader { return icebergtest.Must(gzip.NewReader(r)) }},
		"v12.metadata.json.gz": {gz, `/00013-[0-9a-f-]{36}\.gz\.metadata\.json$`, func(r io.Reader) io.Reader { return icebergtest.Must(gzip.NewReader(r)) }},
		"v3.zstd.metadata.json": {zst, `/00004-[0-9a-f-]{36}\.zstd\.metadata\.json$`, func(r io.Reader) io.Reader {
			return icebergtest.Must(zstd.NewReader(r, zstd.WithDecoderConcurrency(1)))
		}},
		"99999-a1.metadata.json": {func(s string) string { return s }, `/100000-[0-9a-f-]{36}\.metadata\.json$`, func(r io.Reader) io.Reader { return r }},
	} {
		t.Run(name, func(t *testing.T) {
			reader, pinned, at := described(t, name, c.pack)
			wanted := time.Now().Add(time.Hour)
			_, err := reader.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
			require.NoError(t, err)
			require.Regexp(t, c.next, at())
			stored, err := os.ReadFile(at())
			require.NoError(t, err)
			text, err := io.ReadAll(c.open(bytes.NewReader(stored)))
			require.NoError(t, err)
			require.Contains(t, string(text), catalog.PinTagPrefix)
			_, err = reader.At(t.Context(), icebergtest.Events, pinned.Pin)
			require.NoError(t, err)
		})
	}
}

func TestMetadataThatContradictsItself(t *testing.T) {
	c, pinned, at := described(t, named, func(text string) string { return `{"location":"/elsewhere",` + strings.TrimPrefix(text, "{") })
	before := at()
	wanted := time.Now().Add(time.Hour)
	_, err := c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
	require.Equal(t, fault.Corrupt.String(), fault.KindOf(err).String())
	require.ErrorContains(t, err, "it has location twice")
	require.Equal(t, before, at())
}

// Metadata is charged while it is written, and the charge is then released.
func TestTagsAreCharged(t *testing.T) {
	w := icebergtest.NewWriter(t)
	pinned := w.Pinned(t, w.Open(t), 2)
	wanted := time.Now().Add(time.Hour)
	o := w.Options()
	o.Budget = budget.New(1 << 30)
	c, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	_, err = c.At(t.Context(), icebergtest.Events, pinned.Pin)
	require.NoError(t, err)
	reading := o.Budget.Peak()
	_, err = c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
	require.NoError(t, err)
	require.Zero(t, o.Budget.Used())
	stored, err := os.Stat(icebergtest.Local(t, w.Load(t, icebergtest.Events).MetadataLocation()))
	require.NoError(t, err)
	require.Greater(t, o.Budget.Peak(), 2*reading+stored.Size(), "what is read, what is written in three forms, and what is read of that")
	o.Budget = budget.New(reading)
	c, err = icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	_, err = c.Tag(t.Context(), pinned, icebergtest.Until(wanted.Add(time.Hour), wanted.Add(time.Hour)))
	require.Equal(t, fault.Exhausted.String(), fault.KindOf(err).String(), "%v", err)
	require.Zero(t, o.Budget.Used())
}

// A read-only store, and a folder without write permission, refuse tags.
func TestTagsThatStorageRefuses(t *testing.T) {
	w := icebergtest.NewWriter(t)
	pinned := w.Pinned(t, w.Open(t), 2)
	o := w.Options()
	o.Store = struct{ store.Store }{store.Local{}} // without its other methods
	c, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	before, wanted := w.Load(t, icebergtest.Events).MetadataLocation(), time.Now().Add(time.Hour)
	_, err = c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
	require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String())
	require.ErrorContains(t, err, "this version only reads from its store")
	require.Equal(t, icebergtest.Events, fault.As(err).Table)
	require.Equal(t, before, w.Load(t, icebergtest.Events).MetadataLocation())
}

// The metadata of a table on S3 is written to S3.
func TestTagsOnS3(t *testing.T) {
	g, err := gatewaytest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	require.NoError(t, g.MakeBucket(t.Context(), "lake"))
	w := icebergtest.NewWriter(t)
	w.Pinned(t, w.Open(t), 2)
	text, err := os.ReadFile(icebergtest.Local(t, w.Load(t, icebergtest.Events).MetadataLocation()))
	require.NoError(t, err)
	require.NoError(t, g.Put(t.Context(), "lake", "events/metadata/"+named, text))
	_, err = icebergtest.OpenDB(t, filepath.Join(w.Dir, "catalog.db")).ExecContext(t.Context(), `UPDATE iceberg_tables SET metadata_location = 's3://lake/events/metadata/`+named+`'`)
	require.NoError(t, err)
	o := w.Options()
	o.Stores = store.NewKinds(s3.Kind(store.Environment{}))
	o.Properties = map[string]string{"s3.endpoint": g.URL, "s3.access-key-id": gatewaytest.Access, "s3.secret-access-key": gatewaytest.Secret}
	c, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	pinned, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	wanted := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	_, err = c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted))
	require.NoError(t, err)
	ends, err := c.Tag(t.Context(), pinned, icebergtest.Until(wanted, wanted.Add(time.Hour)))
	require.NoError(t, err)
	require.True(t, ends.Equal(wanted), "the tag is read again")
	var now string
	require.NoError(t, icebergtest.OpenDB(t, filepath.Join(w.Dir, "catalog.db")).QueryRowContext(t.Context(), `SELECT metadata_location FROM iceberg_tables`).Scan(&now))
	require.Regexp(t, `^s3://lake/events/metadata/00008-`, now)
}
