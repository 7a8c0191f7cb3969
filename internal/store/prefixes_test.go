package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
)

// TestPrefixesContainWhatLiesBelow compares locations as stores take them.
//
// spec: storage-17
func TestPrefixesContainWhatLiesBelow(t *testing.T) {
	kinds := store.NewKinds(s3.Kind(store.Environment{}))
	for _, c := range []struct {
		prefix   string
		inside   []string
		outsides []string
	}{
		{
			"s3://b/wh",
			[]string{"s3://b/wh/x.parquet", "s3a://b/wh/t/x", "S3N://b/wh/x", "s3://b/wh//x", "s3://b/wh/%2e/x", "s3://b/wh/..x/y", "s3://b/wh/day=../x"},
			[]string{
				"s3://b/wh2/x", "s3://b/wh", "s3://b/", "s3://b2/wh/x", "s3://b/WH/x", "s3://b/x/wh/x", "s3://b/./wh/x", "/b/wh/x", "file:///b/wh/x", "s3:/b/wh/x",
				"s3:b/wh/x", "s3://b/wh/../x", "s3://b/wh/t/../../x", "s3://b/wh/%2e%2e/x", "s3://b/wh/%2E./x", "s3://b/wh/%252e%252e/x", "s3://b/wh/..",
				"gs://b/wh/x", "https://b/wh/x", "s3://b%2fwh/x", "",
			},
		},
		{"s3a://b/wh/", []string{"s3://b/wh/x"}, []string{"s3://b/wh2/x"}},
		{"s3://b", []string{"s3://b/x", "s3a://b/wh/x"}, []string{"s3://b2/x", "s3://bx", "/b/x"}},
		{"s3://", []string{"s3://b/x", "s3n://c/x"}, []string{"/x", "file:///x", "s3://b/../x"}},
		{
			"/wh",
			[]string{"/wh/x", "file:/wh/x", "file:///wh/x", "file://localhost/wh/x", "FILE:///wh/x", "/wh/./x", "//wh//x", "/wh/%41"},
			[]string{"/wh2/x", "/wh", "/x", "/wh/../x", "/wh/../wh/x", "/wh/%2e%2e/x", "file://host/wh/x", "wh/x", "s3://wh/x", "/wh/\x00/../x"},
		},
		{"file:///wh/", []string{"/wh/x"}, []string{"/wh2/x", "/"}},
		{"/", []string{"/x", "file:///a/b"}, []string{"s3://b/x", "/a/../b", "x"}},
	} {
		prefixes, err := kinds.Prefixes(c.prefix)
		require.NoError(t, err)
		for _, location := range c.inside {
			require.True(t, prefixes.Contain(location), "%s below %s", location, c.prefix)
		}
		for _, location := range c.outsides {
			require.False(t, prefixes.Contain(location), "%q below %s", location, c.prefix)
		}
	}
	require.False(t, store.Prefixes{}.Contain("/x"), "no folder contains nothing")
	for _, wrong := range []string{"", "gs://b/x", "relative", "/a/../b", "s3:b", "file://host/x"} {
		_, err := kinds.Prefixes("/good", wrong)
		require.Equal(t, fault.Invalid, fault.KindOf(err), wrong)
	}
}
