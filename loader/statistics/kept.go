package statistics

import (
	"context"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/cache/disk"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/catalog"
)

// Disk keeps the parts of files on local disk. A disk.Tier implements it.
type Disk interface {
	Has(id disk.ColumnID) bool
	Get(ctx context.Context, id disk.ColumnID, want disk.WantedChunk) (*disk.Chunk, bool)
	Put(o disk.Offer) bool
}

// MaxKept is the maximum size of the sample of a part that is kept, in bytes. The rest of a part has at most
// stats.Part.Memory bytes, and twice the longest texts.
const MaxKept = 64 << 20

// partIdentity has everything that the part of a file depends on, besides the file itself.
type partIdentity struct {
	Version int
	Level   int
	Seed    uint64
	// Checked reports whether pages without checksums are refused.
	Checked   bool
	Columns   []columnIdentity
	Defaults  map[int]string // the initial defaults of the table, by field id
	Mapping   string         // the name mapping
	Spec      catalog.Spec   // of the values in Partition, which columns take that the file lacks
	Partition []any
	Deletes   []deleteIdentity
}

type columnIdentity struct {
	ID   int
	Type string
}

type deleteIdentity struct {
	Kind            catalog.DeleteKind
	Location        string
	Bytes, Sequence int64
	Offset, Length  int64 // of a vector
	Columns         []columnIdentity
}

// keptPart identifies the kept part of a file at each level.
type keptPart struct {
	file     disk.ColumnID
	identity partIdentity
}

// allRowGroups is the row group in the ids of parts, which describe whole files.
const allRowGroups = -1

// keptPart returns the identity of the part of a file; nil if parts are not kept, or if nothing identifies the table.
func (d *describing) keptPart(f catalog.File, seed uint64) *keptPart {
	if d.Kept == nil || !d.table.Identified() {
		return nil
	}
	k := &keptPart{
		file: disk.ColumnID{Table: d.table.Pin.UUID, File: d.table.RelativePath(f.Location), FileSize: f.Bytes, RowGroup: allRowGroups},
		identity: partIdentity{
			Version: stats.StateVersion, Seed: seed, Checked: d.RequireChecksums, Columns: identitiesOf(d.columns), Defaults: map[int]string{},
			Mapping: d.table.Pin.Mapping, Spec: d.table.Specs[f.Spec], Partition: f.Partition,
		},
	}
	for id, value := range d.table.Defaults {
		k.identity.Defaults[id] = value.DataType().String() + " " + value.ValueStr(0)
	}
	for _, of := range f.Deletes.All(f.Sequence) {
		k.identity.Deletes = append(k.identity.Deletes, deleteIdentity{
			Kind: of.Kind, Location: of.Location, Bytes: of.Bytes, Sequence: of.Sequence, Offset: of.Offset, Length: of.Length,
			Columns: identitiesOf(of.Columns),
		})
	}
	return k
}

func identitiesOf(columns []catalog.Field) []columnIdentity {
	out := make([]columnIdentity, len(columns))
	for i, f := range columns {
		out[i] = columnIdentity{ID: f.ID, Type: f.TypeText()}
	}
	return out
}

// id returns the id of the part at a level.
func (k *keptPart) id(level int) disk.ColumnID {
	k.identity.Level = level
	id := k.file
	id.Type = "statistics " + digest.Of(k.identity)
	return id
}

// readKept returns the part of a file from the disk, or false if the disk does not have it. A sample with more rows than the
// table needs is sampled again, because each level selects a part of the rows of the level before it.
func (d *describing) readKept(ctx context.Context, k *keptPart, fields []arrow.Field) (*stats.Part, bool) {
	if k == nil {
		return nil, false
	}
	for level := d.level; level >= 0; level-- {
		if !d.Kept.Has(k.id(level)) {
			continue
		}
		if part, ok := d.readLevel(ctx, k, level, fields); ok {
			return part, true
		}
	}
	return nil, false
}

// readLevel returns the part of a file that was kept at a level.
func (d *describing) readLevel(ctx context.Context, k *keptPart, level int, fields []arrow.Field) (*stats.Part, bool) {
	c, ok := d.Kept.Get(ctx, k.id(level), disk.WantedChunk{
		Types: []arrow.DataType{stats.PartType(fields)}, Rows: disk.AnyRows,
		Reserve: func(bytes int64) (*budget.Reservation, error) { return d.Budget.Reserve("kept statistics", bytes) },
	})
	if !ok {
		return nil, false
	}
	defer c.Release()
	part, err := stats.ReadPart(fields, c.Arrays[0])
	if err != nil {
		return nil, false
	}
	sampled := part.Sampled
	if !part.Resample(d.level) {
		return nil, false
	}
	for _, rows := range c.Arrays[1:] {
		sampled -= int64(rows.Len())
		if err = d.addKept(ctx, part, rows, fields); err != nil {
			break
		}
	}
	if err != nil || sampled != 0 {
		d.held.Shrink(part.SampleBytes)
		part.Release()
		return nil, false
	}
	return part, true
}

// addKept adds rows of a kept sample to a part.
func (d *describing) addKept(ctx context.Context, part *stats.Part, rows arrow.Array, fields []arrow.Field) error {
	b, numbers, err := stats.SampleRows(fields, rows)
	if err != nil {
		return err
	}
	defer b.Release()
	bytes, err := part.Select(b, numbers)
	if err != nil {
		return err
	}
	if err := d.held.GrowWait(ctx, bytes); err != nil {
		return err
	}
	if err := part.AddSample(b, memory.DefaultAllocator); err != nil {
		d.held.Shrink(bytes)
		return err
	}
	return nil
}

// keep offers the part of a file to the disk, and waits until the disk no longer uses its memory. The time limits of the disk
// bound the wait. Without memory, or if the sample is too large, the part is not kept.
func (d *describing) keep(k *keptPart, f catalog.File, part *stats.Part, fields []arrow.Field) error {
	if k == nil || part.SampleBytes > d.maxKept || d.held.Grow(part.Memory()) != nil {
		return nil
	}
	defer d.held.Shrink(part.Memory())
	arrays, err := part.Arrays(fields)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	d.Kept.Put(disk.Offer{
		ID: k.id(d.level), Arrays: arrays, Cost: uint32(min(f.Rows, math.MaxUint32)), Done: func() { close(done) }, //nolint:gosec // in range
	})
	<-done
	for _, a := range arrays {
		a.Release()
	}
	return nil
}
