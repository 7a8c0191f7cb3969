package cell_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/internal/scenario/cell"
)

// TestBucketHash compares the oracle's hash with the test vectors of Iceberg's
// specification, appendix B, and with published values of Murmur3.
func TestBucketHash(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind, word string
		want       int32
	}{
		{"int", "34", 2017239379},
		{"long", "34", 2017239379},
		{"decimal(9,2)", "14.20", -500754589},
		{"date", "2017-11-16", -653330422},
		{"time", "22:31:08", -662762989},
		{"timestamp", "2017-11-16T22:31:08", -2047944441},
		{"timestamp", "2017-11-16T22:31:08.000001", -1207196810},
		{"timestamptz", "2017-11-16T22:31:08Z", -2047944441},
		{"timestamptz", "2017-11-16T22:31:08.000001Z", -1207196810},
		{"timestamp_ns", "2017-11-16T22:31:08", -2047944441},
		{"timestamp_ns", "2017-11-16T22:31:08.000001001", -1207196810},
		{"timestamptz_ns", "2017-11-16T22:31:08.000001001Z", -1207196810},
		{"string", "iceberg", 1210000089},
		{"uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", 1488055340},
		{"fixed(4)", "AAECAw==", -188683207},
		{"binary", "AAECAw==", -188683207},
	} {
		fields, err := scenario.Fields("v:" + test.kind)
		require.NoError(t, err)
		rows, err := scenario.Rows(fields, []string{test.word})
		require.NoError(t, err)
		v := scenario.Value(rows.Column(0), 0)
		rows.Release()
		require.Equal(t, test.want, int32(cell.Hash(fields[0].Type, v)), "%s %s", test.kind, test.word)
	}
	for text, want := range map[string]uint32{"": 0, "a": 0x3c2569b2, "abc": 0xb3dd93fa, "Hello, world!": 0xc0363e43} {
		require.Equal(t, want, cell.Murmur3([]byte(text)), text)
	}
}

// TestDecimalBytes compares the oracle's and the product's hashes of numbers around
// every change of length.
func TestDecimalBytes(t *testing.T) {
	t.Parallel()
	fields, err := scenario.Fields("d:decimal(38,0) s:string n:long")
	require.NoError(t, err)
	var lines []string
	for _, n := range []string{
		"0", "1", "-1", "127", "128", "-128", "-129", "255", "256", "32767", "32768", "-32768", "-32769", "9223372036854775807",
		"9223372036854775808", "-9223372036854775808", "-9223372036854775809", "99999999999999999999999999999999999999", "-99999999999999999999999999999999999999",
	} {
		lines = append(lines, n+" "+n+" 7")
	}
	rows, err := scenario.Rows(fields, lines)
	require.NoError(t, err)
	defer rows.Release()
	for i, f := range fields {
		want, err := bucket.Hashes(nil, rows.Column(i))
		require.NoError(t, err)
		for row, values := range scenario.Values(rows) {
			require.Equal(t, want[row], int32(cell.Hash(f.Type, values[i])), "%v", values[i])
		}
	}
}
