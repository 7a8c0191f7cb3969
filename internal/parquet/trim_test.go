package parquet_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
)

// TestStoredBytesAreFreedEarly expects that a reader that has memory to spare frees the stored bytes
// of dictionaries and of pages without wanted rows when it opens a row group, whether or not it has
// read the row group ahead. The rows do not depend on that.
func TestStoredBytesAreFreedEarly(t *testing.T) {
	t.Parallel()
	const rows, groupRows = 6000, 3000
	all := numbers(t, 0, rows)
	for name, of := range map[string]struct {
		write    parquettest.Options
		from, to int64 // rows that are read
		trims    bool
	}{
		"dictionaries":             {write: parquettest.Options{}, to: rows, trims: true},
		"dictionaries, version 2":  {write: parquettest.Options{PageV2: true, PageBytes: 1 << 10}, to: rows, trims: true},
		"few rows":                 {write: parquettest.Options{PageV2: true, PageBytes: 1 << 10}, from: 700, to: groupRows + 150, trims: true},
		"few rows, not compressed": {write: parquettest.Options{PageV2: true, PageBytes: 1 << 10, Plain: true, Codec: parquettest.Uncompressed}, from: 700, to: groupRows + 150, trims: true},
		"plain":                    {write: parquettest.Options{Plain: true}, to: rows},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of.write.RowGroupRows = groupRows
			content := write(t, of.write, all)
			// held returns the bytes that the reader holds after the first batch of each row group.
			held := func(spare *purse) (held []int64) {
				l, last := &ledger{}, -1
				rdr, err := open(t, content).Read(t.Context(), parquet.ReadOptions{
					Fields: ids(4), Schema: numbersSchema(), BatchRows: 100, From: of.from, To: of.to,
					Memory: allocator(t), Scratch: allocator(t), Admit: l.admit, Ahead: spare.ahead,
				})
				require.NoError(t, err)
				defer func() {
					rdr.Release()
					require.Zero(t, l.held)
					require.Zero(t, spare.held)
				}()
				rdr.Fetch()
				for at := of.from; rdr.Next(); at += rdr.RecordBatch().NumRows() {
					want := all.NewSlice(at, at+rdr.RecordBatch().NumRows())
					requireEqual(t, want, rdr.RecordBatch())
					want.Release()
					if group := int(at / groupRows); group != last {
						last, held = group, append(held, l.held+spare.held)
					}
					l.admit(-rdr.Admitted(), 0) //nolint:errcheck // returning memory is never refused
				}
				require.NoError(t, rdr.Err())
				return held
			}
			with, without := held(&purse{}), held(&purse{none: true})
			require.Len(t, with, 2)
			require.Len(t, without, 2)
			// In the last row group, no other row group is read ahead.
			if of.trims {
				require.Less(t, with[1], without[1]-int64(len(content))/8)
			} else {
				require.Equal(t, without[1], with[1])
			}
		})
	}
}
