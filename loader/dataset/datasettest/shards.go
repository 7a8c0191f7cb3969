package datasettest

import "github.com/penstock/penstock/loader/dataset"

// Shards returns the cursors of a run with four lanes and two shards.
func Shards() dataset.Cursors {
	one := dataset.Cursor{
		Rows: dataset.Rows{Dataset: "c8cb5c6c", Filter: Filter("a < 1 AND b > '&'"), Order: dataset.Shuffled, Shuffle: dataset.ShuffleSplits, Seed: -9223372036854775808, Epoch: 2, Lanes: 4, Pin: dataset.Pin{
			Training: dataset.TablePin{UUID: "9c12", Snapshot: 9007199254740993, Schema: 1, Mapping: "0123456789abcdef"},
			Staging: map[string]dataset.TablePin{
				"b": {UUID: "77", Snapshot: dataset.NoSnapshot},
				"a": {UUID: "1b4e", Snapshot: 7, Schema: 2},
			},
		}},
		Version: 1, Plan: "5ffc2e23", Algorithm: 1, Shard: dataset.Shard{Index: 0, Of: 2}, Step: 12, Given: 4096, At: []dataset.Position{{Lane: 0, Range: 3, Row: 1200}, {Lane: 2, Range: 2, Row: 9223372036854775807}},
	}
	two := one
	two.Shard.Index = 1
	two.At = []dataset.Position{{Lane: 1, Range: 3}, {Lane: 3, Range: 4, Row: 9}}
	return dataset.Cursors{one, two}
}
