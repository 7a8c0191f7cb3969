package extend_test

import (
	"bytes"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/extend"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// TestLaterFiles adds columns to files of a later version of the format. Fields that are not known
// are left out of the new footer. A file with a type that is not known is refused before anything
// is written, since the copy would lose the type.
//
// spec: file-23
func TestLaterFiles(t *testing.T) {
	t.Parallel()
	old := oldRows(200)
	reader, err := array.NewRecordReader(old.Schema(), []arrow.RecordBatch{old})
	require.NoError(t, err)
	defer reader.Release()
	var to bytes.Buffer
	require.NoError(t, parquettest.Write(&to, reader, parquettest.Options{PageIndex: true}))

	made, _, err := add(t, parquettest.WithUnknownFields(to.Bytes()), 200, extend.Options{})
	require.NoError(t, err)
	requireMoved(t, to.Bytes(), made)
	requireColumns(t, made, []int{1, 2, 3}, old)
	requireColumns(t, made, []int{1001, 1002}, news(0, 200))

	for name, edit := range map[string][2]string{
		"logical":  {"\x18\x04text%\x005\x04\x1c\x1c\x00\x00", "\x18\x04text%\x005\x04\x1c\x0c\x46\x00\x00"},
		"physical": {"\x15\x0c%\x02\x18\x04text", "\x15\x2c%\x02\x18\x04text"},
		"group":    {"\x18\x04list\x15\x02\x15\x065\x06\x1c<\x00\x00", "\x18\x04list\x15\x02\x15\x065\x06\x1c\x0c\x46\x00\x00"},
	} {
		later, err := parquettest.EditFooter(to.Bytes(), edit[0], edit[1])
		require.NoError(t, err, name)
		var written memoryFile
		_, err = extend.AddColumns(t.Context(), &written, object(t, later), extend.Options{})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %v", name, err)
		require.ErrorContains(t, err, "a type that this version does not support")
		require.Empty(t, written.Bytes())
	}
}
