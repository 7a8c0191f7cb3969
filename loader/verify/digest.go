package verify

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
)

// digest identifies a key by the first 128 bits of a SHA-256, so that different keys have different
// digests in practice. All digests take the same memory, however large the keys are.
type digest struct{ high, low uint64 }

func (d digest) compare(o digest) int {
	return cmp.Or(cmp.Compare(d.high, o.high), cmp.Compare(d.low, o.low))
}

// keyDigester computes digests of the keys of a batch.
type keyDigester struct {
	columns []arrow.Array
	bytes   []byte // of one key
}

// load sets the key columns, given their positions in a batch.
func (d *keyDigester) load(rows arrow.RecordBatch, at []int) {
	d.columns = d.columns[:0]
	for _, i := range at {
		d.columns = append(d.columns, rows.Column(i))
	}
}

// null reports whether a row has a null in its key.
func (d *keyDigester) null(row int) bool {
	return slices.ContainsFunc(d.columns, func(a arrow.Array) bool { return a.IsNull(row) })
}

// digest returns the digest of a row's key, which has no null. Equal integers of
// different widths have the same digest.
func (d *keyDigester) digest(row int) (digest, error) {
	d.bytes = d.bytes[:0]
	for _, column := range d.columns {
		var err error
		if d.bytes, err = batch.AppendValue(d.bytes, column, row); err != nil {
			return digest{}, err
		}
	}
	sum := sha256.Sum256(d.bytes)
	return digest{high: binary.BigEndian.Uint64(sum[:]), low: binary.BigEndian.Uint64(sum[8:])}, nil
}
