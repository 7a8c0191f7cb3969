package stats_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/stats"
)

// textsProfile returns the profile of a column of texts or of binary values.
func textsProfile(t *testing.T, of arrow.DataType, texts ...string) *stats.Profile {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: of}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for _, text := range texts {
		switch f := b.Field(0).(type) {
		case *array.StringBuilder:
			f.Append(text)
		case *array.BinaryBuilder:
			f.Append([]byte(text))
		}
	}
	rows := b.NewRecordBatch()
	p := stats.NewPart(schema.Fields(), stats.Sampling{})
	_, err := p.Select(rows, make([]int64, len(texts)))
	require.NoError(t, err)
	require.NoError(t, p.Add(rows, memory.DefaultAllocator))
	return p.Outline().Profiles(0, "v")[0]
}

// spec: stats-35
func TestForms(t *testing.T) {
	for text, want := range map[string]string{
		"6f9619ff-8b86":  "lower-case letters, digits and '-'",
		"6F9619FF8B86":   "upper-case letters and digits",
		"6f96-19FF_8.b/": "lower-case letters, upper-case letters, digits and punctuation",
		"user_17":        "lower-case letters, digits and '_'",
		"user_0017":      "lower-case letters, digits with leading zeros and '_'",
		"00":             "digits with leading zeros",
		"0":              "digits",
		"2026-01-02":     "digits and '-'",
		"01:30":          "digits and ':'",
		"17.0":           "digits and '.'",
		"17 ":            "digits and white space at an end",
		"   ":            "white space at an end",
		"ab cd":          "lower-case letters and ' '",
		"東京":             "other characters",
		"Ärger":          "lower-case letters and upper-case letters",
		"a\x00":          "lower-case letters and other characters",
		"\xff\xfe":       "other characters",
	} {
		of := arrow.DataType(arrow.BinaryTypes.String)
		if strings.ContainsRune(text, 0xfffd) {
			of = arrow.BinaryTypes.Binary
		}
		forms := textsProfile(t, of, text, "").Forms(0)
		require.Len(t, forms, 1)
		require.Equal(t, want, forms[0].Form.String(), "%q", text)
		require.EqualValues(t, 1, forms[0].Count)
	}
}

// spec: stats-35
func TestFormsWithAUsualLength(t *testing.T) {
	var texts []string
	for i := range 200 {
		texts = append(texts, fmt.Sprintf("%06d", 7919*i%1_000_000))
	}
	usual := textsProfile(t, arrow.BinaryTypes.String, append(texts, "7", "", "12")...)
	require.Equal(t, 6, usual.UsualWidth())
	forms := usual.Forms(6)
	require.Len(t, forms, 2)
	require.Equal(t, "digits and 6 characters", forms[0].Form.String())
	require.Equal(t, "digits and another length", forms[1].Form.String())
	require.Equal(t, []int64{200, 2}, []int64{forms[0].Count, forms[1].Count})

	require.Zero(t, textsProfile(t, arrow.BinaryTypes.String, append(texts, "7", "8", "9")...).UsualWidth())
	require.Zero(t, textsProfile(t, arrow.BinaryTypes.String).UsualWidth())
	require.Empty(t, textsProfile(t, arrow.BinaryTypes.String).Forms(0))

	var many []string
	for i := range 1025 {
		many = append(many, string([]rune{'!' + rune(i%10), rune(0x2190 + i/10)}))
	}
	require.Len(t, textsProfile(t, arrow.BinaryTypes.String, many[:1024]...).Forms(0), 1024)
	require.Nil(t, textsProfile(t, arrow.BinaryTypes.String, many...).Forms(0))
}
