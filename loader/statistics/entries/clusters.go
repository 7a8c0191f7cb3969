package entries

import (
	"encoding/binary"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cespare/xxhash/v2"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/stats"
)

// entryOf returns the entry that has a described column, age or time, by its index; -1: none.
func (d *describing) entryOf(field int) int {
	if others := len(d.columns); field >= others {
		return slices.Concat(d.ages, d.times)[field-others]
	}
	return max(d.planned.Outputs[d.columns[field]].Table, -1)
}

// cluster adds rows of a batch, all of one partition, to the clusters of each entry.
func (d *describing) cluster(of int32, b arrow.RecordBatch, rows []int32) (err error) {
	var bytes []byte
	for e, m := range d.marks {
		clusters := &d.days[of].clusters[e]
		for _, row := range rows {
			if bytes, err = m.stagingRow(bytes[:0], b, int(row)); err != nil {
				return err
			}
			if len(bytes) == 0 {
				clusters.AddAlone()
				continue
			}
			if d.dataset.Staging[e].Align != nil {
				bytes = binary.LittleEndian.AppendUint32(bytes, uint32(of)) //nolint:gosec // only for its bits
			}
			clusters.Add(xxhash.Sum64(bytes))
		}
	}
	return nil
}

// stagingRow appends bytes that are equal for training rows of one partition that join the same staging row: those of the key, and of
// the time of the staging row if the entry has point_in_time. Rows without a match have only those of the key. It appends nothing for a
// row with a null in the key, which has no match for a reason of its own.
func (m marked) stagingRow(dst []byte, b arrow.RecordBatch, row int) (_ []byte, err error) {
	for _, at := range m.key {
		if b.Column(at).IsNull(row) {
			return dst[:0], nil
		}
		if dst, err = batch.AppendValue(dst, b.Column(at), row); err != nil {
			return nil, err
		}
	}
	if len(m.key) > 0 && m.staging >= 0 && b.Column(m.staging).IsValid(row) {
		return batch.AppendValue(dst, b.Column(m.staging), row)
	}
	return dst, nil
}

// allClusters returns the clusters of each entry in all partitions.
func (d *describing) allClusters() []stats.Clusters {
	out := make([]stats.Clusters, len(d.marks))
	for _, day := range d.days {
		for e := range out {
			out[e].Merge(&day.clusters[e])
		}
	}
	return out
}

// effects returns the design effect of each described column, given the clusters of each entry.
func (d *describing) effects(clusters []stats.Clusters) []float64 {
	out := make([]float64, len(d.fields))
	for i := range out {
		out[i] = 1
		if e := d.entryOf(i); e >= 0 {
			out[i] = clusters[e].Effect()
		}
	}
	return out
}
