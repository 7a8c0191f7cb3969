package shuffle

import (
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/joiner"
)

// LastRow returns the last of some training rows. The rows have the columns of the request key, and
// then a column with the number of each row among the stored rows of its split. LastRow reads all
// of the rows; the caller releases them.
func LastRow(rows array.RecordReader, seed uint64) (StoredRow, error) {
	var last StoredRow
	err := eachRow(rows, seed, func(row StoredRow) bool {
		last = row
		return true
	})
	return last, err
}

// FirstOther returns the first of some training rows that does not belong to the request of a given
// row. The rows have the same columns as for LastRow.
func FirstOther(rows array.RecordReader, seed uint64, than StoredRow) (StoredRow, error) {
	var other StoredRow
	err := eachRow(rows, seed, func(row StoredRow) bool {
		if than.Found && row.Priority == than.Priority {
			return true
		}
		other = row
		return false
	})
	return other, err
}

// eachRow calls f with each row until f returns false.
func eachRow(rows array.RecordReader, seed uint64, f func(StoredRow) bool) error {
	key := make([]int, rows.Schema().NumFields()-1)
	for i := range key {
		key[i] = i
	}
	keys, err := joiner.NewKeyReader(rows.Schema(), key, nil)
	if err != nil {
		return err
	}
	for rows.Next() {
		b := rows.RecordBatch()
		ordinals := ordinalsOf(b)
		of := make([]uint64, len(ordinals))
		priorities(keys, b, ordinals, seed, of)
		for i, row := range ordinals {
			if !f(StoredRow{Row: row, Priority: of[i], Found: true}) {
				return nil
			}
		}
	}
	return rows.Err()
}
