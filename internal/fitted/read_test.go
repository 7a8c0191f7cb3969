package fitted

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// fittedFile writes a file with two lists, and returns its path and its digest.
func fittedFile(t *testing.T) (path, digest string) {
	t.Helper()
	bounds, err := fit(t, Ask{Column: "price", Kind: Quantiles, Size: 4}, values(t, arrow.PrimitiveTypes.Float64, `[1.5, 2, -3, 4e300, null]`))
	require.NoError(t, err)
	words, err := fit(t, Ask{Column: "word", Kind: Vocabulary, Size: 9}, values(t, arrow.BinaryTypes.String, `["b", "b", "a,\"]}\\\u00e9", ""]`))
	require.NoError(t, err)
	content, err := File{From: "ml.t", Filter: "a = '}\"'", Snapshots: json.RawMessage(`{"training": {"snapshot": "7"}}`), Rows: 5, Lists: []List{bounds, words}}.Bytes()
	require.NoError(t, err)
	return put(t, string(content))
}

func put(t *testing.T, content string) (path, digest string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fitted.json")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path, Digest([]byte(content))
}

// Files are read as they are written, each list once.
//
// spec: fitted-4, fitted-6
func TestFilesAreReadAsWritten(t *testing.T) {
	path, digest := fittedFile(t)
	b := budget.New(1 << 20)
	s := NewSource(b)
	wants := []Want{{Digest: digest, Column: "price"}, {Digest: digest, Kind: Vocabulary}, {Digest: digest, Column: "price", Kind: Quantiles}, {Digest: digest, Column: "price"}}
	lists, _, err := s.Read([]string{path, path, path, path}, wants)
	require.NoError(t, err)
	require.Equal(t, []int{3, 3, 3, 3}, []int{lists[0].Len(), lists[1].Len(), lists[2].Len(), lists[3].Len()})
	require.Equal(t, lists[0].Digest(), lists[2].Digest())
	require.Same(t, lists[0], lists[3])
	require.Positive(t, b.Used())

	used := b.Used()
	again, _, err := s.Read([]string{path}, wants[1:2])
	require.NoError(t, err)
	require.Same(t, lists[1], again[0])
	require.Equal(t, used, b.Used())
	_, _, err = s.Read(nil, nil)
	require.NoError(t, err)
	require.Equal(t, 3, lists[3].Len()+again[0].Len()-3) // until here, the lists are used
	require.Eventually(t, func() bool { runtime.GC(); return b.Used() == 0 }, time.Minute, time.Millisecond, "lists without users are charged")
}

// list returns the content of a file with one list.
func list(kind Kind, of, values string) string {
	return fmt.Sprintf(`{"version": 1, "lists": [{"column": "c", "kind": %q, "type": %q, "values": %s}]}`, kind, of, values)
}

// spec: fitted-5
func TestFilesThatCannotBeRead(t *testing.T) {
	many := func(n int) string { return "[" + strings.Repeat("1,", n) + "1]" }
	for content, want := range map[string]string{
		"":                                     "not JSON",
		"{":                                    "not JSON",
		"[1]":                                  "not an object",
		"5":                                    "not an object",
		`{"version": 1}`:                       "no version or no lists",
		`{"lists": []}`:                        "no version or no lists",
		`{"version": 1, "lists": {}}`:          "lists is not a list",
		`{"version": 1, "lists": [5]}`:         "a list has no column",
		`{"version": 2, "list": [5]}`:          "the file has form 2, and this version reads form 1",
		`{"version": 1, "list": []}`:           "unknown field list",
		`{"version": 1, "version": 1}`:         "version is given twice",
		`{"version": 1, "lists": []} {}`:       "not JSON",
		"{\"version\": 1, \"from\": \"\xff\"}": "not JSON in UTF-8",
		`{"version": 1, "lists": [{"column": "c", "kind": "quantiles", "type": "int64", "values": [1], "size": 1}]}`:    "a list has an unknown field size",
		`{"version": 1, "lists": [{"column": "c", "kind": "quantiles", "type": "int64", "values": [1], "values": []}]}`: "values is given twice",
		`{"version": 1, "lists": [{"column": 5}]}`:          "column of a list is not a text",
		list("quantiles", "utf8", "[1]"):                    "does not fit",
		list("vocabulary", "float64", "[1]"):                "does not fit",
		list("histogram", "int64", "[1]"):                   "does not fit",
		list("quantiles", "int64", "5"):                     "there are no values",
		list("quantiles", "int64", "[]"):                    "there are no values",
		list("quantiles", "int64", "[1, null]"):             "value 2, null, is not a whole number within long",
		list("quantiles", "int64", "[1.5]"):                 "value 1, 1.5, is not a whole number within long",
		list("quantiles", "int64", `["1"]`):                 "is not a whole number within long",
		list("quantiles", "int32", "[9223372036854775808]"): "is not a whole number within long",
		list("quantiles", "int64", "[1, 1]"):                "value 2, 1, is not greater than the value before",
		list("quantiles", "float64", "[2, 1]"):              "value 2, 1, is not greater than the value before",
		list("quantiles", "float32", "[0, -0.0]"):           "value 2, -0.0, is not greater than the value before",
		list("quantiles", "float64", "[1e999]"):             "is not a finite number",
		list("quantiles", "float64", `["NaN"]`):             "is not a finite number",
		list("quantiles", "float64", "[[1]]"):               "is not a finite number",
		list("quantiles", "float64", many(MaxBounds)):       "value 2, 1, is not greater",
		list("vocabulary", "int64", many(5)):                "has the value 1 twice",
		list("vocabulary", "int64", many(MaxValues)):        "there are more than 1048576 values",
		list("vocabulary", "utf8", `["a", "a"]`):            "has the value a twice",
		list("vocabulary", "utf8", `["a", 5]`):              "value 2, 5, is not a text",
		list("vocabulary", "utf8", `["\ud800"]`):            `has a \u escape that is not a character`,
	} {
		path, digest := put(t, content)
		b := budget.New(1 << 30)
		_, at, err := NewSource(b).Read([]string{path}, []Want{{Digest: digest}})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%.80s: %v", content, err)
		require.ErrorContains(t, err, want)
		require.Zero(t, at)
		require.Less(t, len(err.Error()), 500)
		require.Zero(t, b.Used(), "%.80s", content)
	}
}

// spec: fitted-4, fitted-5
func TestFilesThatChanged(t *testing.T) {
	path, digest := fittedFile(t)
	other, _ := put(t, list("vocabulary", "int64", "[1]"))
	s := NewSource(nil)
	_, at, err := s.Read([]string{path, other}, []Want{{Digest: digest, Column: "word"}, {Digest: digest}})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.Equal(t, 1, at)
	require.ErrorContains(t, err, "instead of "+digest)
	require.Regexp(t, `digest: sha256:[0-9a-f]{64}$`, fault.As(err).Remedy)

	_, at, err = s.Read([]string{path, path}, []Want{{Digest: digest, Column: "word"}, {Digest: digest}})
	require.ErrorContains(t, err, `2 lists of column "" and kind ""`)
	require.Equal(t, 1, at)
	_, _, err = s.Read([]string{path}, []Want{{Digest: digest, Column: "word", Kind: Quantiles}})
	require.ErrorContains(t, err, `0 lists of column "word" and kind "quantiles"`)
	require.Contains(t, fault.As(err).Remedy, "{column: price, kind: quantiles}, {column: word, kind: vocabulary}")

	for name, want := range map[string]string{filepath.Join(t.TempDir(), "none"): "no such file", t.TempDir(): "not a regular file", "/dev/zero": "not a regular file"} {
		link := filepath.Join(t.TempDir(), "link")
		require.NoError(t, os.Symlink(name, link))
		_, _, err = s.Read([]string{link}, []Want{{Digest: digest}})
		require.Equal(t, fault.Invalid, fault.KindOf(err), name)
		require.ErrorContains(t, err, want)
	}
	large := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(large, nil, 0o600))
	require.NoError(t, os.Truncate(large, MaxFile+1))
	_, _, err = s.Read([]string{large}, []Want{{Digest: digest}})
	require.ErrorContains(t, err, "has more than 134217728 bytes")
}

// spec: fitted-6
func TestListsAreCharged(t *testing.T) {
	var words strings.Builder
	for i := range 1 << 17 {
		fmt.Fprintf(&words, `, "word %d"`, i)
	}
	content := list("vocabulary", "utf8", "["+words.String()[2:]+"]")
	path, digest := put(t, content)
	b := budget.New(int64(len(content)) + 4<<20)
	_, _, err := NewSource(b).Read([]string{path}, []Want{{Digest: digest}})
	require.Equal(t, fault.Exhausted, fault.KindOf(err), err)
	require.Contains(t, fault.As(err).Remedy, "raise the setting memory")
	require.Zero(t, b.Used())
	b = budget.New(1000)
	_, _, err = NewSource(b).Read([]string{path}, []Want{{Digest: digest}})
	require.Equal(t, fault.Exhausted, fault.KindOf(err), err)

	b = budget.New(1 << 30)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	lists, _, err := NewSource(b).Read([]string{path}, []Want{{Digest: digest}})
	require.NoError(t, err)
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), b.Used(), "a list takes more than is charged for it")
	require.Equal(t, 1<<17, lists[0].Len())
}
