package decode_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/fitted"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// spec: fitted-4, fitted-12
func TestFittedListsAreDecoded(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	of := func(lists string) (dataset.Dataset, error) {
		return decode.Dataset("d", document(t, "training: {table: ml.t}\nfitted: "+lists))
	}
	d, err := of("{z: {file: a/b.json, digest: " + digest + "}, a b: {file: /c, digest: " + digest + ", column: p, kind: vocabulary}}")
	require.NoError(t, err)
	require.Equal(t, []dataset.Fitted{{Name: "a b", File: "/c", Digest: digest, Column: "p", Kind: fitted.Vocabulary}, {Name: "z", File: "a/b.json", Digest: digest}}, d.Fitted)
	again, err := decode.Dataset("d", document(t, string(d.Canonical())))
	require.NoError(t, err)
	require.Equal(t, d, again)

	for lists, want := range map[string][2]string{
		"[a]":                           {"fitted", "must be a mapping from names to objects"},
		"{a: b.json}":                   {"fitted.a", "must be an object"},
		"{a: {file: b}}":                {"fitted.a.digest", "missing"},
		"{a: {digest: " + digest + "}}": {"fitted.a.file", "missing"},
		`{a: {file: "", digest: ` + digest + "}}":                         {"fitted.a.file", ""},
		"{a: {file: b, digest: md5:00}}":                                  {"fitted.a.digest", "must be sha256: with 64 hexadecimal digits"},
		"{a: {file: b, digest: sha512:" + strings.Repeat("0a", 64) + "}}": {"fitted.a.digest", "must be sha256: with 64 hexadecimal digits"},
		"{a: {file: b, digest: " + strings.ToUpper(digest) + "}}":         {"fitted.a.digest", "must be sha256: with 64 hexadecimal digits"},
		"{a: {file: b, digest: " + digest + ", kind: histogram}}":         {"fitted.a.kind", "quantiles"},
		"{a: {file: b, digest: " + digest + ", path: c}}":                 {"fitted.a.path", "unknown field"},
		`{"": {file: b, digest: ` + digest + "}}":                         {`fitted[""]`, "the name of a list has 1 to"},
	} {
		_, err := of(lists)
		require.Error(t, err, lists)
		require.Equal(t, want[0], fault.As(err).Faults[0].Field, lists)
		require.Contains(t, fault.As(err).Faults[0].Message, want[1], lists)
	}
	_, err = decode.Query([]byte(`{"dataset": {"training": {"table": "ml.t"}, "fitted": {"a": {"file": "/etc/passwd", "digest": "` + digest + `"}}}}`))
	require.Equal(t, "dataset.fitted", fault.As(err).Faults[0].Field)
	require.Contains(t, err.Error(), "only for the datasets of its config file")
}
