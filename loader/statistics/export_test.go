package statistics

import "testing"

// SetLimits replaces SampleRows and MaxKept.
func (d *Describer) SetLimits(sampleRows, maxKept int64) {
	d.sampleRows, d.maxKept = sampleRows, maxKept
}

// Identity returns an identity of a part without empty fields.
func Identity(t *testing.T) any {
	t.Helper()
	columns := []columnIdentity{{ID: 1, Type: "long"}}
	return partIdentity{
		Version: 1, Level: 2, Seed: 3, Columns: columns, Defaults: map[int]string{1: "int64 0"}, Mapping: "names", Partition: []any{int64(1)},
		Deletes: []deleteIdentity{{Location: "d", Bytes: 1, Sequence: 2, Offset: 3, Length: 4, Columns: columns}},
	}
}
